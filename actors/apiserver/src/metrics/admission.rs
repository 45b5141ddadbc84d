//! Time of the two halves of admission, under upstream's name for a step of the chain.

use std::sync::LazyLock;
use std::time::Duration;

use oarlock_admission::Operation;
use oarlock_telemetry::metrics::Histogram;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Bounds of the time of a step.
const BOUNDS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

/// The series of one operation, by half and by whether the request was refused.
type OfOperation = [[Histogram; 2]; 2];

/// The series of all operations, found by index.
struct Steps {
    family: Family<Labels, Histogram, fn() -> Histogram>,
    create: OfOperation,
    update: OfOperation,
    delete: OfOperation,
    connect: OfOperation,
}

static STEPS: LazyLock<Steps> = LazyLock::new(|| {
    let steps = Steps::new();
    oarlock_telemetry::registry().declare(|registry| steps.register(registry));
    steps
});

impl Steps {
    fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BOUNDS);
        let family: Family<Labels, Histogram, fn() -> Histogram> = Family::new_with_constructor(histogram);
        let of = |operation| {
            ["admit", "validate"].map(|r#type| {
                ["false", "true"].map(|rejected| family.get_or_create_owned(&Labels { r#type, operation, rejected }))
            })
        };
        let (create, update, delete, connect) = (of("CREATE"), of("UPDATE"), of("DELETE"), of("CONNECT"));
        Self { family, create, update, delete, connect }
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Time of the mutating and of the validating stages of a request";
        registry.register("apiserver_admission_step_admission_duration_seconds", help, self.family.clone());
    }

    fn count(&self, operation: Operation, mutates: bool, refused: bool, took: Duration) {
        let [admit, validate] = match operation {
            Operation::Create => &self.create,
            Operation::Update => &self.update,
            Operation::Delete => &self.delete,
            Operation::Connect => &self.connect,
        };
        let [passed, rejected] = if mutates { admit } else { validate };
        let series = if refused { rejected } else { passed };
        series.observe(took.as_secs_f64());
    }
}

/// Records that a request has passed through one half of the stages, or was refused there.
pub(crate) fn admission(operation: Operation, mutates: bool, refused: bool, took: Duration) {
    STEPS.count(operation, mutates, refused, took);
}

#[cfg(test)]
mod tests {
    use oarlock_telemetry::metrics::{Format, encode};

    use super::*;

    #[test]
    fn each_half_has_its_series() {
        let (steps, mut registry) = (Steps::new(), Registry::default());
        steps.register(&mut registry);
        steps.count(Operation::Create, true, false, Duration::from_millis(30));
        steps.count(Operation::Delete, false, true, Duration::from_millis(30));
        let text = encode(Format::OpenMetrics, [&registry]);
        let name = "apiserver_admission_step_admission_duration_seconds";
        oarlock_testkit::metrics::has(
            &text,
            [
                format!("{name}_bucket{{le=\"0.1\",type=\"admit\",operation=\"CREATE\",rejected=\"false\"}} 1"),
                format!("{name}_count{{type=\"validate\",operation=\"DELETE\",rejected=\"true\"}} 1"),
            ],
        );
        oarlock_testkit::metrics::check(&text, &[name]);
    }
}
