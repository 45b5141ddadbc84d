//! One queue of all test processes: the longest first, as many at once as the machine has room for.

use std::collections::VecDeque;

use anyhow::anyhow;
use parking_lot::Mutex;

/// Something to run, and how long it is expected to take.
pub(crate) struct Task<'a, T> {
    pub(crate) seconds: f64,
    /// Whether the task depends on real time. Other tasks (tests in virtual time) run at a lower priority, mostly in the pauses of these.
    pub(crate) real_time: bool,
    pub(crate) run: Box<dyn FnOnce() -> anyhow::Result<T> + Send + 'a>,
}

/// Runs all tasks and returns their results, in the order in which they ended. Tasks in real time have one lane more than there are processors, since
/// they mostly wait for other processes; one further lane runs the other tasks.
///
/// # Errors
/// The first task that could not be run; no task is started after that.
pub(crate) fn run<T: Send>(mut tasks: Vec<Task<'_, T>>, processors: usize) -> anyhow::Result<Vec<T>> {
    tasks.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let (front, back): (VecDeque<_>, VecDeque<_>) = tasks.into_iter().partition(|task| task.real_time);
    let queues = Mutex::new((front, back));
    let next = |background: bool| {
        let mut queues = queues.lock();
        let (front, back) = &mut *queues;
        if background { back.pop_front() } else { front.pop_front().or_else(|| back.pop_front()) }
    };
    let lane = |background: bool| {
        let mut done = Vec::new();
        while let Some(task) = next(background) {
            match (task.run)() {
                Ok(outcome) => done.push(outcome),
                Err(error) => {
                    *queues.lock() = (VecDeque::new(), VecDeque::new());
                    return Err(error);
                }
            }
        }
        Ok(done)
    };
    let lane = &lane;
    let lanes: Vec<anyhow::Result<Vec<T>>> = std::thread::scope(|scope| {
        let backgrounds = std::iter::repeat_n(false, processors + 1).chain([true]);
        let lanes: Vec<_> = backgrounds.map(|background| scope.spawn(move || lane(background))).collect();
        lanes.into_iter().map(|lane| lane.join().map_err(|_| anyhow!("a lane panicked"))?).collect()
    });
    Ok(lanes.into_iter().collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use parking_lot::Mutex;

    use super::{Task, run};

    fn task<'a>(begun: &'a Mutex<Vec<u32>>, number: u32, seconds: f64, real_time: bool) -> Task<'a, u32> {
        let run = move || {
            begun.lock().push(number);
            if number == 13 { bail!("it does not start") } else { Ok(number) }
        };
        Task { seconds, real_time, run: Box::new(run) }
    }

    #[test]
    fn everything_runs_once_and_what_cannot_run_ends_it() {
        let begun = Mutex::new(Vec::new());
        let tasks = (0..12).map(|number| task(&begun, number, f64::from(number), number % 3 > 0)).collect();
        let mut done = run(tasks, 2).unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..12).collect::<Vec<_>>());
        let tasks = (0..30).map(|number| task(&begun, number, 0.0, true)).collect();
        assert_eq!(run(tasks, 1).unwrap_err().to_string(), "it does not start");
    }

    #[test]
    fn the_longest_begins_first() {
        let begun = Mutex::new(Vec::new());
        // One at a time: a lane takes both kinds, the other lane finds the background empty.
        let tasks = [3, 9, 5].map(|number| task(&begun, number, f64::from(number), true)).into();
        run(tasks, 0).unwrap();
        assert_eq!(*begun.lock(), [9, 5, 3]);
    }
}
