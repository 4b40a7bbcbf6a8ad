//! What outlives one session with the driver: counters go on where they stood, and a board that was there stays in the
//! list, down, until it is back. Used twice: over reloads of the driver in the worker, and over workers in the exporter.
//! Pure.

use std::collections::BTreeMap;

use crate::node::gpu::{Gpu, Xid};

/// All boards that were ever seen, by UUID.
#[derive(Debug, Default)]
pub struct Ledger(BTreeMap<String, Board>);

#[derive(Debug, Default)]
struct Board {
    /// Who it is and what happened to it, as of the newest reading: what is shown while it is lost.
    known: Gpu,
    energy: Counter,
    busy: Counter,
    /// By XID, what earlier workers have counted.
    xids_before: BTreeMap<u64, u64>,
}

/// A counter of somebody who may begin anew.
#[derive(Debug, Default)]
struct Counter {
    shown: f64,
    offset: f64,
}

impl Counter {
    /// Never falls: one that begins anew goes on from where it stood, and what was between is not known.
    fn follow(&mut self, read: f64) -> f64 {
        if read + self.offset < self.shown {
            self.offset = self.shown - read;
        }
        self.shown = read + self.offset;
        self.shown
    }
}

impl Ledger {
    /// No board was seen yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same reading, with counters that go on and with the boards that are missing from it. A GPU without a UUID is
    /// one that cannot be asked: the missing board that had its index, if there is one.
    pub fn take(&mut self, mut gpus: Vec<Gpu>) -> Vec<Gpu> {
        for gpu in gpus.iter_mut().filter(|gpu| !gpu.uuid.is_empty()) {
            self.0.entry(gpu.uuid.clone()).or_default().follow(gpu);
        }
        let here = |gpus: &[Gpu], uuid: &str| gpus.iter().any(|gpu| gpu.uuid == uuid);
        let missing: Vec<&Gpu> = self
            .0
            .values()
            .map(|board| &board.known)
            .filter(|known| !here(&gpus, &known.uuid))
            .collect();
        gpus.retain(|gpu| {
            !gpu.uuid.is_empty() || missing.iter().all(|lost| lost.index != gpu.index)
        });
        gpus.extend(missing.into_iter().cloned());
        gpus.sort_by(|a, b| (a.index, &a.uuid).cmp(&(b.index, &b.uuid)));
        gpus
    }

    /// What counted from its own start begins again with 0: all but the energy, which the driver counts.
    pub fn restarted(&mut self) {
        for board in self.0.values_mut() {
            board.busy.offset = board.busy.shown;
            board.xids_before = board
                .known
                .xids
                .iter()
                .map(|(xid, seen)| (*xid, seen.count))
                .collect();
        }
    }
}

impl Board {
    fn follow(&mut self, gpu: &mut Gpu) {
        gpu.energy_joules = gpu.energy_joules.map(|read| self.energy.follow(read));
        gpu.busy_seconds = gpu.busy_seconds.map(|read| self.busy.follow(read));
        for (xid, before) in &self.xids_before {
            let last = self.known.xids.get(xid).map_or(0.0, |seen| seen.last);
            let seen = gpu.xids.entry(*xid).or_insert(Xid { count: 0, last });
            seen.count += before;
        }
        // A worker that has not met this board knows less of it than we do.
        let newer = Gpu {
            up: false,
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            name: gpu.name.clone(),
            pci_bus_id: gpu.pci_bus_id.clone(),
            driver_version: gpu.driver_version.clone(),
            mig_mode: gpu.mig_mode.clone(),
            util_source: gpu.util_source.clone(),
            xids: gpu.xids.clone(),
            ..Gpu::default()
        };
        self.known = newer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u32, uuid: &str, joules: f64) -> Gpu {
        Gpu {
            index,
            uuid: uuid.to_owned(),
            up: !uuid.is_empty(),
            energy_joules: (!uuid.is_empty()).then_some(joules),
            busy_seconds: (!uuid.is_empty()).then_some(joules / 10.0),
            ..Gpu::default()
        }
    }

    fn energies(gpus: &[Gpu]) -> Vec<Option<f64>> {
        gpus.iter().map(|gpu| gpu.energy_joules).collect()
    }

    #[test]
    fn energy_goes_on_where_it_stood() {
        let mut ledger = Ledger::default();
        for (read, shown) in [(100.0, 100.0), (150.0, 150.0), (5.0, 150.0), (25.0, 170.0)] {
            let gpus = ledger.take(vec![gpu(0, "A", read)]);
            assert_eq!(energies(&gpus), [Some(shown)]);
        }
    }

    #[test]
    fn a_lost_board_stays_by_its_uuid_whatever_its_index() {
        let mut ledger = Ledger::default();
        assert!(ledger.is_empty());
        ledger.take(vec![gpu(0, "A", 1.0), gpu(1, "B", 2.0)]);
        // The GPU at index 0 cannot be asked: it is A.
        let gpus = ledger.take(vec![gpu(0, "", 0.0), gpu(1, "B", 3.0)]);
        let shown: Vec<_> = gpus
            .iter()
            .map(|g| (g.index, g.uuid.as_str(), g.up))
            .collect();
        assert_eq!(shown, [(0, "A", false), (1, "B", true)]);
        assert_eq!(energies(&gpus), [None, Some(3.0)]);
        // After a reload B is the first, and A is gone; then A is back.
        let gpus = ledger.take(vec![gpu(0, "B", 4.0)]);
        let shown: Vec<_> = gpus
            .iter()
            .map(|g| (g.index, g.uuid.as_str(), g.up))
            .collect();
        assert_eq!(shown, [(0, "A", false), (0, "B", true)]);
        let gpus = ledger.take(vec![gpu(0, "B", 5.0), gpu(1, "A", 1.5)]);
        let shown: Vec<_> = gpus
            .iter()
            .map(|g| (g.index, g.uuid.as_str(), g.up))
            .collect();
        assert_eq!(shown, [(0, "B", true), (1, "A", true)]);
        // One that nobody has ever met is shown without a name.
        let gpus = ledger.take(vec![gpu(0, "B", 5.0), gpu(1, "A", 2.0), gpu(2, "", 0.0)]);
        assert_eq!((gpus.len(), gpus[2].up), (3, false));
    }

    #[test]
    fn what_a_worker_counted_is_added_to_what_the_one_before_it_did() {
        let mut ledger = Ledger::default();
        let seen = |count, last| BTreeMap::from([(79, Xid { count, last })]);
        let with = |joules, xids| Gpu {
            xids,
            ..gpu(0, "A", joules)
        };
        ledger.take(vec![with(1_000.0, seen(2, 50.0))]);
        ledger.restarted();
        let gpus = ledger.take(vec![with(1_100.0, BTreeMap::new())]);
        assert_eq!(
            gpus[0].energy_joules,
            Some(1_100.0),
            "the driver's own count"
        );
        assert_eq!(gpus[0].busy_seconds, Some(210.0));
        assert_eq!(gpus[0].xids, seen(2, 50.0));
        let gpus = ledger.take(vec![with(1_200.0, seen(1, 90.0))]);
        assert_eq!(gpus[0].xids, seen(3, 90.0));
    }
}
