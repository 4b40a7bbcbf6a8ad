"""Asks Helm's own library about the chart and prints as JSON what it lints, renders, packs and refuses.

Every rendered object is checked against the schemas of the oldest and the newest Kubernetes known here, and the Prometheus
operator's against its own models; what they refuse ends this with an error.
"""

import json
import sys
import tarfile
import tempfile

import helm_python as helm
import kubernetes_validate
import yaml
from cloudcoil.models.prometheus_operator import v1 as operator

CHART = "deploy/helm/training-exporter"
KUBERNETES = ["1.25", kubernetes_validate.latest_version()]


def check(text):
    """The objects of a rendered file, each in the form that its own schema demands."""
    objects = [found for found in yaml.safe_load_all(text) if found]
    for found in objects:
        if found["apiVersion"].startswith("monitoring.coreos.com/"):
            model = getattr(operator, found["kind"]).model_validate(found)
            strangers(found, model)
        else:
            for version in KUBERNETES:
                kubernetes_validate.validate(found, version, strict=True)
    return objects


def strangers(found, model, path=""):
    """Fails at a key that the operator does not know."""
    if isinstance(found, list):
        for i, (one, its) in enumerate(zip(found, model)):
            strangers(one, its, f"{path}[{i}]")
    elif isinstance(found, dict) and hasattr(type(model), "model_fields"):
        fields = type(model).model_fields
        names = {field.alias or name: name for name, field in fields.items()}
        for key, value in found.items():
            if key not in names:
                sys.exit(f"{path}.{key}: the Prometheus operator knows no such key")
            strangers(value, getattr(model, names[key]), f"{path}.{key}")


def main():
    everything = yaml.safe_load(open(f"{CHART}/ci/all-values.yaml"))
    answer = {"lint": [], "objects": {}, "notes": {}, "refused": {}}
    with helm.Chart.load(CHART) as chart:
        for name, values in {"default": {}, "all": everything}.items():
            answer["lint"] += helm.lint(CHART, values, strict=True)["messages"]
            rendered = chart.render(values, name="name", namespace="space")
            notes = [path for path in rendered if path.endswith("NOTES.txt")]
            answer["notes"][name] = rendered.pop(notes[0])
            answer["objects"][name] = [found for text in rendered.values() for found in check(text)]
        for wrong in json.loads(sys.argv[1]):
            try:
                chart.validate_schema(wrong)
            except helm.HelmValuesError as refused:
                answer["refused"][json.dumps(wrong)] = str(refused)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(helm.package(CHART, destination=folder)) as packed:
            answer["packed"] = {
                one.name.split("/", 1)[1]: packed.extractfile(one).read().decode() for one in packed if one.isfile()
            }
    json.dump(answer, sys.stdout)


main()
