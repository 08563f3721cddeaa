use std::sync::mpsc;

use super::*;

#[test]
fn answers_leave_in_the_order_of_their_times_and_never_early() {
    let timer = Timer::start().expect("start");
    let (sender, answers) = mpsc::channel();
    let start = Instant::now();
    for (name, ms) in [("c", 30), ("a", 10), ("b", 20), ("a2", 10)] {
        let sender = sender.clone();
        let at = start + Duration::from_millis(ms);
        timer.at(at, Box::new(move || sender.send((name, Instant::now() >= at)).expect("send")));
    }
    let order: Vec<_> = (0..4).map(|_| answers.recv().expect("an answer")).collect();
    assert_eq!(order, [("a", true), ("a2", true), ("b", true), ("c", true)]);
}
