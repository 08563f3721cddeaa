//! Threads for I/O that may have to wait for the host's disk.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

type Work = Box<dyn FnOnce() + Send>;

pub(super) struct Workers {
    queue: Sender<Work>,
}

impl Workers {
    pub(super) fn start(count: usize) -> std::io::Result<Workers> {
        let (queue, work) = mpsc::channel();
        let work = Arc::new(Mutex::new(work));
        for _ in 0..count {
            let work = Arc::clone(&work);
            std::thread::Builder::new().name("worker".into()).spawn(move || run(&work))?;
        }
        Ok(Workers { queue })
    }

    pub(super) fn run(&self, work: Work) {
        self.queue.send(work).expect("the workers live as long as their queue");
    }
}

fn run(work: &Mutex<Receiver<Work>>) {
    loop {
        // Who waits holds the lock, and so is the only one that waits for work; the others wait for the lock.
        let next = work.lock().expect("no work is done under the lock").recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}
