//! Tests of bindings whose answer is lost.

use super::*;

/// Longer than any binding in these tests needs to become certain.
const LONG: Duration = Duration::from_secs(300);

/// Creates a node with room for one pod, and two pods one after the other; the bindings of the first have the given faults.
async fn rivals(fake: &Fake, faults: &[Fault]) {
    fake.put("nodes", node("n1"));
    fake.fail_bindings(faults);
    fake.put("pods", pod("a", "2"));
    clock::sleep(Duration::from_millis(10)).await;
    fake.put("pods", pod("b", "2"));
}

fn bindings(fake: &Fake) -> usize {
    fake.fences().iter().filter(|(written, _)| written == "pods/binding").count()
}

#[test]
fn a_binding_whose_answer_was_lost_counts_as_done() {
    play(6, |fake| async move {
        fake.put("nodes", node("n1"));
        fake.fail_bindings(&[Fault::LoseAnswer]);
        fake.put("pods", pod("a", "2"));
        fake.until("a is bound", |fake| on(fake, "a") == "n1").await;
        fake.until("an event", |fake| !events(fake, "a").is_empty()).await;
        assert!(events(&fake, "a").iter().all(|(reason, _)| reason == "Scheduled"));
    });
}

#[test]
fn a_binding_that_arrives_after_its_answer_was_given_up_overfills_no_node() {
    play(30, |fake| async move {
        rivals(&fake, &[Fault::Late(Duration::from_secs(4))]).await;
        clock::sleep(LONG).await;
        assert_eq!((on(&fake, "a"), on(&fake, "b")), ("n1".to_owned(), String::new()));
        assert_eq!(bindings(&fake), 2, "one, and once more");
    });
}

#[test]
fn room_is_kept_until_nothing_more_can_arrive_and_then_given_to_another() {
    play(31, |fake| async move {
        // The answer of every attempt is lost; one attempt takes effect late.
        let mut faults = [Fault::Timeout; 11];
        faults[3] = Fault::Late(Duration::from_secs(60));
        rivals(&fake, &faults).await;
        clock::sleep(LONG).await;
        assert_eq!((on(&fake, "a"), on(&fake, "b")), ("n1".to_owned(), String::new()));
        assert_eq!(bindings(&fake), 11, "no more are made");
        fake.delete("pods", "default", "a");
        fake.until("b is bound", |fake| on(fake, "b") == "n1").await;

        fake.fail_bindings(&[Fault::Timeout; 11]);
        fake.put("nodes", node("n2"));
        fake.put("pods", pod("c", "2"));
        let since = clock::now();
        fake.until("it has begun", |fake| bindings(fake) == 13).await;
        clock::sleep(Duration::from_secs(180)).await;
        assert_eq!((on(&fake, "c"), events(&fake, "c")), (String::new(), Vec::new()));
        clock::sleep(Duration::from_secs(60)).await;
        assert_eq!(events(&fake, "c")[0].0, "FailedScheduling");
        fake.until("it is tried again", |fake| on(fake, "c") == "n2").await;
        assert!(since.elapsed() < LONG, "{:?}", since.elapsed());
    });
}

#[test]
fn a_lost_answer_about_a_pod_that_cannot_be_bound_any_more_gives_its_room_back() {
    play(32, |fake| async move {
        rivals(&fake, &[Fault::Timeout]).await;
        fake.delete("pods", "default", "a");
        let since = clock::now();
        fake.until("b is bound", |fake| on(fake, "b") == "n1").await;
        // Another scheduler has bound this pod to another node meanwhile.
        fake.put("nodes", node("n2"));
        fake.fail_bindings(&[Fault::Timeout]);
        fake.put("pods", pod("c", "2"));
        clock::sleep(Duration::from_millis(10)).await;
        let mut elsewhere = fake.get("pods", "default", "c");
        elsewhere["spec"]["nodeName"] = json!("n3");
        fake.put("pods", elsewhere);
        fake.put("pods", pod("d", "2"));
        fake.until("d is bound", |fake| on(fake, "d") == "n2").await;
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    });
}

#[test]
fn a_scheduler_that_stops_with_a_binding_in_doubt_does_not_wait_for_it() {
    Universe::run(33, || async {
        let fake = Fake::default();
        let system = System::start(Options::default()).await.unwrap();
        let _scheduler =
            Scheduler::spawn(&system, Client::new(Arc::new(fake.clone())), Config::default()).await.unwrap();
        rivals(&fake, &[Fault::Timeout; 11]).await;
        fake.until("it is in doubt", |fake| bindings(fake) == 4).await;
        let since = clock::now();
        shutdown::shutdown(&system, shutdown::Graces::default()).await;
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
        assert_eq!((bindings(&fake), on(&fake, "b")), (4, String::new()));
    });
}
