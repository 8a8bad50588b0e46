//! Nothing is allocated once it runs.

use crate::app::{App, Place, Spec, VERBS, connect};
use roce_engine::io::mem;
use roce_engine::units::Instant;
use roce_engine::verbs::QpType;
use roce_engine::worker::{Endpoint, EndpointConfig, Worker};

#[test]
fn no_turn_allocates() {
    for ty in [QpType::Rc, QpType::Uc] {
        let (a, b) = mem::pair(256, 4400);
        let end =
            |io, secret| Endpoint::new(io, EndpointConfig { secret, ..EndpointConfig::default() }, None);
        let (mut a, mut b) = (end(a, 1), end(b, 2));
        let mut halves = [Vec::new(), Vec::new()];
        for verb in VERBS {
            if ty == QpType::Uc && matches!(verb, crate::app::Verb::Read | crate::app::Verb::FetchAdd) {
                continue;
            }
            let spec = Spec { verb, ty, messages: u64::MAX, ..Spec::default() };
            let at_a = Place { endpoint: &mut a, index: 0, host: 1 };
            let at_b = Place { endpoint: &mut b, index: 0, host: 2 };
            for (list, half) in halves.iter_mut().zip(connect(spec, at_a, at_b)) {
                list.push(half);
            }
        }
        let mut apps = halves.map(|halves| App { halves, strangers: 0 }).into_iter();
        let mut workers = [a, b].map(|e| Worker::new(vec![e], apps.next().unwrap()));
        let mut now = 0;
        let mut go = |workers: &mut [Worker<_, _>; 2], turns: u64| {
            for _ in 0..turns {
                now += 1000;
                for worker in workers.iter_mut() {
                    worker.turn(Instant::from_nanos(now));
                }
            }
        };
        go(&mut workers, 2_000);
        let before = workers[0].app().halves.iter().map(|h| h.done).sum::<u64>();
        let found = allocation_counter::measure(|| go(&mut workers, 50_000));
        let after = workers[0].app().halves.iter().map(|h| h.done).sum::<u64>();
        assert!(after - before > 50_000, "{ty:?}: only {} messages", after - before);
        assert_eq!(found.count_total, 0, "{ty:?}: {found:?}");
    }
}
