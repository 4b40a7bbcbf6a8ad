"""Compares a reading of ours (JSON, a list of GPUs) with nvidia-ml-py and with `nvitop -1` on the same library.

usage: LD_LIBRARY_PATH=FOLDER_OF_THE_LIBRARY python agree.py READING.json
Exit status 1, and what differs, if anything does.
"""

import json
import re
import subprocess
import sys

import pynvml

differences = []
compared = 0


def same(what, ours, theirs):
    global compared
    compared += 1
    if ours != theirs:
        differences.append(f"{what}: ours {ours!r}, theirs {theirs!r}")


def asked(function, *arguments):
    """What a call answers; None if the driver refuses, as absent with us."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def by_binding(gpus):
    """Every field, by NVIDIA's own binding."""
    pynvml.nvmlInit()
    same("count", len(gpus), pynvml.nvmlDeviceGetCount())
    driver = pynvml.nvmlSystemGetDriverVersion()
    for gpu in gpus:
        handle = pynvml.nvmlDeviceGetHandleByIndex(gpu["index"])

        def scaled(function, factor, *arguments):
            value = asked(function, handle, *arguments)
            return None if value is None else value * factor

        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        rates = asked(pynvml.nvmlDeviceGetUtilizationRates, handle)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        processes += pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
        mig = asked(pynvml.nvmlDeviceGetMigMode, handle)
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        for field, theirs in {
            "uuid": pynvml.nvmlDeviceGetUUID(handle),
            "name": pynvml.nvmlDeviceGetName(handle),
            "driver_version": driver,
            "pci_bus_id": pynvml.nvmlDeviceGetPciInfo(handle).busId,
            "mig_mode": {None: "", 0: "disabled", 1: "enabled"}[mig and mig[0]],
            "util": rates and rates.gpu / 100,
            "energy_joules": scaled(pynvml.nvmlDeviceGetTotalEnergyConsumption, 1e-3),
            "power_watts": scaled(pynvml.nvmlDeviceGetPowerUsage, 1e-3),
            "power_limit_watts": scaled(pynvml.nvmlDeviceGetEnforcedPowerLimit, 1e-3),
            "memory_used_bytes": memory.used,
            "memory_capacity_bytes": memory.total,
            "temperature_celsius": scaled(pynvml.nvmlDeviceGetTemperature, 1, 0),
            "sm_clock_hertz": scaled(pynvml.nvmlDeviceGetClockInfo, 1e6, pynvml.NVML_CLOCK_SM),
            "throttle": reasons,
            "pids": sorted({process.pid for process in processes}),
        }.items():
            ours = gpu[field]
            if isinstance(ours, float) and isinstance(theirs, float):
                ours, theirs = round(ours, 6), round(theirs, 6)
            same(f"nvidia-ml-py, GPU {gpu['index']} {field}", ours, theirs)
    pynvml.nvmlShutdown()


def by_nvitop(gpus):
    """What its table shows of each GPU: temperature, power, memory, utilisation, processes."""
    run = [sys.executable, "-m", "nvitop", "-1", "--ascii"]
    table = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    rows = re.findall(
        r"(\d+)C .*?(\d+)W / (\d+)W \|\s*([\d.]+)([MG])iB / ([\d.]+)([MG])iB \|\s*(\d+%|N/A)", table
    )
    same("nvitop, GPUs", len(gpus), len(rows))
    ours = sorted((gpu["index"], pid) for gpu in gpus for pid in gpu["pids"])
    shown = re.findall(r"^\|\s+(\d+)\s+(\d+) [CGX+]+ ", table, re.MULTILINE)
    same("nvitop, processes", ours, sorted((int(index), int(pid)) for index, pid in shown))
    unit = {"M": 1 << 20, "G": 1 << 30}
    for gpu, (celsius, watts, limit, used, used_unit, total, total_unit, util) in zip(gpus, rows):
        who = f"nvitop, GPU {gpu['index']}"
        same(f"{who} temperature", gpu["temperature_celsius"], float(celsius))
        same(f"{who} power", round(gpu["power_watts"]), int(watts))
        same(f"{who} limit", round(gpu["power_limit_watts"]), int(limit))
        for what, shown, of in ("used", used, used_unit), ("capacity", total, total_unit):
            ours = gpu[f"memory_{what}_bytes"] / unit[of]
            same(f"{who} memory {what}", round(ours, len(shown.partition(".")[2])), float(shown))
        ours = "N/A" if gpu["util"] is None else f"{round(100 * gpu['util'])}%"
        same(f"{who} utilisation", ours, util)


with open(sys.argv[1], encoding="utf-8") as file:
    ours = json.load(file)
by_binding(ours)
by_nvitop(ours)
print("\n".join(differences) or f"all agree: {compared} values")
sys.exit(bool(differences))
