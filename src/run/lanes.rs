//! One thread for each file system: a question to one that never answers holds up nobody who asks another.
//!
//! Whoever asks goes on; the answer comes with a ring. A lane works through its questions in turn, so whoever asks
//! waits for an answer before the next question of the same kind, and no queue grows.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::thread;

use super::Wake;

/// At most so many threads; file systems beyond it share them.
const LANES: usize = 32;

type Question<A> = Box<dyn FnOnce() -> A + Send>;

/// The threads, and what they answered.
pub(super) struct Lanes<A> {
    lanes: HashMap<PathBuf, Sender<Question<A>>>,
    answer: Sender<A>,
    answers: Receiver<A>,
    waker: SyncSender<Wake>,
}

impl<A: Send + 'static> Lanes<A> {
    /// No thread yet; each answer rings `waker`.
    pub(super) fn new(waker: SyncSender<Wake>) -> Self {
        let (answer, answers) = channel();
        Self {
            lanes: HashMap::new(),
            answer,
            answers,
            waker,
        }
    }

    /// Asks in the lane of this file system. A question that panics is answered by `failed`.
    pub(super) fn ask(
        &mut self,
        lane: &Path,
        failed: impl FnOnce() -> A + Send + 'static,
        question: impl FnOnce() -> A + Send + 'static,
    ) {
        let question: Question<A> = Box::new(move || {
            catch_unwind(AssertUnwindSafe(question)).unwrap_or_else(|_| {
                tracing::error!("a reading panicked; it begins again");
                failed()
            })
        });
        let full = self.lanes.len() >= LANES && !self.lanes.contains_key(lane);
        let shared = self.lanes.keys().max().filter(|_| full).cloned();
        let lane = shared.unwrap_or_else(|| lane.to_owned());
        let sender = self.lanes.entry(lane).or_insert_with(|| {
            let (sender, questions) = channel::<Question<A>>();
            let (answer, waker) = (self.answer.clone(), self.waker.clone());
            let work = move || {
                for question in questions {
                    // Nobody listens any more when the program ends.
                    let _ = answer.send(question());
                    let _ = waker.try_send(Wake::Files);
                }
            };
            // Without a thread its questions are never answered, which is told as any silence is.
            if let Err(e) = thread::Builder::new().name("lane".to_owned()).spawn(work) {
                tracing::error!(error = %e, "no thread for a file system");
            }
            sender
        });
        let _ = sender.send(question);
    }

    /// What was answered since.
    pub(super) fn answers(&self) -> Vec<A> {
        self.answers.try_iter().collect()
    }
}
