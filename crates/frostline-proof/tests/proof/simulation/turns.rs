//! Whose request goes next.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use crate::dice::Dice;

/// Lets one request at a time through, when every actor that is at work waits for one.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Actors that are at work.
    working: BTreeSet<usize>,
    waiting: Vec<Waiting>,
    /// Actors that die, and after how many requests.
    deaths: Vec<(usize, u64)>,
    /// What was let through.
    trace: Vec<(usize, &'static str)>,
}

#[derive(Debug)]
struct Waiting {
    actor: usize,
    verb: &'static str,
    key: String,
    turn: oneshot::Sender<Turn>,
}

/// The right to make one request; the next may go when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The actor's process has died: its request is not made.
    pub(crate) is_dead: bool,
    _done: oneshot::Sender<()>,
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits for the actor's turn; none when nobody lets requests through.
    pub(crate) async fn wait(&self, actor: usize, verb: &'static str, key: String) -> Option<Turn> {
        let (turn, granted) = oneshot::channel();
        {
            let mut state = self.state();
            if !state.working.contains(&actor) {
                return None;
            }
            state.waiting.push(Waiting { actor, verb, key, turn });
        }
        self.changed.notify_one();
        granted.await.ok()
    }

    /// The actor begins; it dies after `dies_after` requests.
    pub(crate) fn begin(&self, actor: usize, dies_after: Option<u64>) {
        let mut state = self.state();
        state.working.insert(actor);
        state.deaths.extend(dies_after.map(|after| (actor, after)));
    }

    /// The actor is done.
    pub(crate) fn end(&self, actor: usize) {
        let mut state = self.state();
        state.working.remove(&actor);
        state.deaths.retain(|(dying, _)| *dying != actor);
        // Tasks that it left behind go nowhere.
        state.waiting.retain(|waiting| waiting.actor != actor);
        drop(state);
        self.changed.notify_one();
    }

    /// What was let through since the last time this was asked.
    pub(crate) fn trace(&self) -> Vec<(usize, &'static str)> {
        std::mem::take(&mut self.state().trace)
    }

    /// Lets requests through until every actor is done. `on_turn` is told of each.
    pub(crate) async fn run(self: &Arc<Self>, dice: &mut Dice, mut on_turn: impl FnMut()) {
        while let Some(next) = self.next(dice).await {
            on_turn();
            let is_dead = self.state().dies(next.actor);
            let (done, ended) = oneshot::channel();
            if next.turn.send(Turn { is_dead, _done: done }).is_ok() {
                // It ends by being dropped.
                let _ = ended.await;
            }
        }
    }

    async fn next(&self, dice: &mut Dice) -> Option<Waiting> {
        loop {
            // Lets every task come to its next request.
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
            {
                let mut state = self.state();
                state.waiting.retain(|waiting| !waiting.turn.is_closed());
                if state.working.is_empty() {
                    return None;
                }
                let waits = |actor: &usize| state.waiting.iter().any(|waiting| waiting.actor == *actor);
                if state.working.iter().all(waits) {
                    return Some(state.choose(dice));
                }
            }
            self.changed.notified().await;
        }
    }
}

impl State {
    /// A request of an actor by chance; of its own the first by key.
    fn choose(&mut self, dice: &mut Dice) -> Waiting {
        let actors: Vec<usize> = self.working.iter().copied().collect();
        let actor = *dice.one(&actors);
        let own = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.actor == actor);
        let first = own.min_by(|(_, a), (_, b)| (a.verb, &a.key).cmp(&(b.verb, &b.key)));
        let at = first.map_or(0, |(at, _)| at);
        let next = self.waiting.remove(at);
        self.trace.push((next.actor, next.verb));
        next
    }

    /// Counts a request of an actor that is to die; says whether it has.
    fn dies(&mut self, actor: usize) -> bool {
        let death = self.deaths.iter_mut().find(|(dying, _)| *dying == actor);
        death.is_some_and(|(_, left)| {
            let dead = *left == 0;
            *left = left.saturating_sub(1);
            dead
        })
    }
}
