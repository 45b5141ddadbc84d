//! `/metrics`: the metrics that the process's crates have registered, and those of its actors.
//!
//! A process with thousands of series renders them for many milliseconds, so a blocking thread does it, and requests are served meanwhile. A process renders for one scrape at a time;
//! other scrapes wait for their turn, and fail when it does not come in time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::{HeaderMap, header};
use oarlock_meta::Status;
use oarlock_runtime::{System, clock};
use oarlock_schema::version::build_info;
use oarlock_telemetry::metrics::Format;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use crate::actors::{self, OfKind};
use crate::answer::{self, Answer, Refusal};

/// Bound of the time that a scrape waits for its turn; half of the time after which Prometheus gives a scrape up by default.
const TURN_DEADLINE: Duration = Duration::from_secs(5);

/// The one turn of the process.
static TURN: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

/// Returns the format of metrics that the `Accept` header of a request asks for.
#[must_use]
pub fn format(headers: &HeaderMap) -> Format {
    Format::accepted(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()))
}

/// Returns the metrics of the process and of the actors of `system`.
///
/// # Errors
/// 503 if the turn of the scrape does not come in time; 500 if the rendering panicked.
pub async fn text(system: &System, format: Format) -> Result<String, Status> {
    let system = system.clone();
    in_turn(&TURN, move || render(&system, format)).await
}

/// Renders on a blocking thread when no other rendering runs. The turn ends with the rendering, also if the client leaves before.
async fn in_turn(turn: &Arc<Semaphore>, render: impl FnOnce() -> String + Send + 'static) -> Result<String, Status> {
    let turn = clock::timeout(TURN_DEADLINE, Arc::clone(turn).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        return Err(Status::service_unavailable("other scrapes of the metrics took too long, try again later"));
    };
    let rendering = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        render()
    });
    rendering.await.map_err(|error| Status::internal_error(format!("the metrics were not rendered: {error}")))
}

fn render(system: &System, format: Format) -> String {
    let mut more = Registry::default();
    more.register_collector(Box::new(Actors(actors::by_kind(system.snapshot()))));
    more.register_collector(Box::new(Build));
    oarlock_telemetry::registry().encode_with(format, &more)
}

/// Returns the metrics as an HTTP answer, in the format that the request asks for.
///
/// # Errors
/// Those of [`text`].
pub async fn answer(system: &System, headers: &HeaderMap) -> Result<Answer, Refusal> {
    let format = format(headers);
    Ok(answer::whole(200, format.media_type(), text(system, format).await?))
}

/// Collector of the version (upstream: `kubernetes_build_info`).
#[derive(Debug)]
struct Build;

impl Collector for Build {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let build = build_info();
        let labels = [
            ("major", build.major),
            ("minor", build.minor),
            ("git_version", &build.git_version),
            ("git_commit", build.git_commit),
            ("git_tree_state", build.git_tree_state),
            ("build_date", build.build_date),
            ("go_version", build.go_version),
            ("compiler", build.compiler),
            ("platform", &build.platform),
        ];
        encoder
            .encode_descriptor("kubernetes_build_info", "1, with the version as labels", None, MetricType::Gauge)?
            .encode_family(&labels)?
            .encode_gauge(&1_u64)
    }
}

type Figure = fn(&OfKind) -> u64;

/// A collector of the actors' figures at one moment.
#[derive(Debug)]
struct Actors(BTreeMap<String, OfKind>);

impl Collector for Actors {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor("oarlock_actors", "Actors", None, MetricType::Gauge)?;
        for (kind, figures) in &self.0 {
            for (life, count) in &figures.lives {
                family.encode_family(&[("kind", kind), ("life", life)])?.encode_gauge(count)?;
            }
        }
        // Gauges, not counters: the sum falls when an actor ends.
        let of_kind: [(&str, &str, Figure); 2] = [
            ("oarlock_actor_restarts", "Restarts after a failure of the actors that are there", |kind| kind.restarts),
            ("oarlock_actor_queue_depth", "Messages that wait for an actor", |kind| kind.queued),
        ];
        for (name, help, figure) in of_kind {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (kind, figures) in &self.0 {
                family.encode_family(&[("kind", kind)])?.encode_gauge(&figure(figures))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Bound of a wait that ends soon unless the code is wrong.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn requests_are_served_while_a_scrape_is_rendered_and_scrapes_take_turns() {
        let turn = Arc::new(Semaphore::new(1));
        let (go_on, goes_on) = channel();
        let (rendered, renders) = channel();
        let first = in_turn(&turn, {
            let rendered = rendered.clone();
            move || {
                goes_on.recv_timeout(LONG).unwrap();
                rendered.send("first").unwrap();
                "first".to_owned()
            }
        });
        let second = in_turn(&turn, move || {
            rendered.send("second").unwrap();
            "second".to_owned()
        });
        // This test has one thread for requests.
        let request = async {
            while turn.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
            go_on.send(()).unwrap();
        };
        let (first, second, ()) = tokio::join!(first, second, request);
        assert_eq!((first.unwrap(), second.unwrap()), ("first".to_owned(), "second".to_owned()));
        assert_eq!(renders.try_iter().collect::<Vec<_>>(), ["first", "second"]);
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_no_turn() {
        let turn = Arc::new(Semaphore::new(1));
        let (go_on, goes_on) = channel::<()>();
        let mut left = Box::pin(in_turn(&turn, move || {
            goes_on.recv_timeout(LONG).unwrap();
            String::new()
        }));
        assert!(futures::poll!(&mut left).is_pending());
        drop(left);
        assert_eq!(turn.available_permits(), 0);
        go_on.send(()).unwrap();
        assert_eq!(in_turn(&turn, || "next".to_owned()).await.unwrap(), "next");
    }

    #[tokio::test(start_paused = true)]
    async fn a_scrape_whose_turn_does_not_come_fails() {
        let turn = Arc::new(Semaphore::new(1));
        let held = Arc::clone(&turn).acquire_owned().await.unwrap();
        let began = clock::now();
        let refused = in_turn(&turn, String::new).await.unwrap_err();
        assert_eq!((refused.code, began.elapsed() >= TURN_DEADLINE), (503, true));
        drop(held);
        assert_eq!(in_turn(&turn, String::new).await.unwrap(), "");
    }

    #[tokio::test]
    async fn a_rendering_that_panics_fails_and_ends_its_turn() {
        let turn = Arc::new(Semaphore::new(1));
        assert_eq!(in_turn(&turn, || panic!("the test says so")).await.unwrap_err().code, 500);
        assert_eq!(in_turn(&turn, String::new).await.unwrap(), "");
    }

    #[test]
    fn kinds_of_actors_are_labels() {
        let lives = BTreeMap::from([("BackingOff".to_owned(), 1), ("Running".to_owned(), 3)]);
        let kinds = BTreeMap::from([("a.b".to_owned(), OfKind { lives, restarts: 4, queued: 10 })]);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Actors(kinds)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode_registry(&mut text, &registry).unwrap();
        for line in [
            "# TYPE oarlock_actors gauge",
            "oarlock_actors{kind=\"a.b\",life=\"BackingOff\"} 1",
            "oarlock_actors{kind=\"a.b\",life=\"Running\"} 3",
            "oarlock_actor_restarts{kind=\"a.b\"} 4",
            "oarlock_actor_queue_depth{kind=\"a.b\"} 10",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
