//! Decides how to make each volume of a pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use oarlock_meta::Quantity;
use oarlock_schema::views::core_v1::{EmptyDirVolumeSource, Pod, Volume};
use oarlock_schema::{Obj, Str};
use oarlock_seeded_bug::seeded_bug;

use super::Failed;
use super::claims;
use super::layout::Plugin;
use super::payload::{self, Payload, Tokens};
use super::plan::{Medium, Plan, host_path};
use crate::configs::pod_limits;
use crate::downward::{self, Surroundings};
use crate::pod_error::PodError;
use crate::references::{Found, References, TokenWish, of_volume};

/// Returns the plans of the volumes that a pod's containers mount, and the errors of those without a plan.
pub(super) async fn all(
    object: &Arc<Obj>,
    around: &Surroundings,
    references: &References,
) -> (Vec<(Str, Plan)>, Failed) {
    let pod = downward::pod(object);
    let namespace = pod.metadata().namespace();
    let used = mounted_names(pod);
    let volumes: Vec<Volume<'_>> = pod.spec().volumes().iter().filter(|volume| used.contains(volume.name())).collect();
    let needs: BTreeSet<_> = volumes.iter().flat_map(|volume| of_volume(*volume)).collect();
    let found = references.find(namespace, needs).await;
    let tokens = tokens(pod, &volumes, references).await;
    let (mut plans, mut failed) = (Vec::new(), Failed::default());
    for volume in volumes {
        let name = Str::from(volume.name());
        let plan = match claims::of(pod, volume) {
            Some(claim) => claims::plan(&claim, namespace, references).await,
            None => plan(volume, pod, around, (&found, &tokens)),
        };
        let plan = match (plan, plugin(volume)) {
            (Err(why), Some(plugin)) => Ok(Some(Plan::Stale { name: name.clone(), plugin, why })),
            (plan, _) => plan,
        };
        match plan {
            Ok(Some(plan)) => plans.push((name, plan)),
            Ok(None) => {
                failed.add(name, "FindPluginBySpec", &PodError::Invalid("no volume plugin matched".to_owned()));
            }
            Err(why) => failed.add(name, "SetUp", &why),
        }
    }
    (plans, failed)
}

/// Returns the plugin of a volume that projects API objects.
fn plugin(volume: Volume<'_>) -> Option<Plugin> {
    let is = [
        (volume.config_map().is_some(), Plugin::ConfigMap),
        (volume.secret().is_some(), Plugin::Secret),
        (volume.downward_api().is_some(), Plugin::DownwardApi),
        (volume.projected().is_some(), Plugin::Projected),
    ];
    is.into_iter().find(|(is, _)| *is).map(|(_, plugin)| plugin)
}

/// Returns the names of the volumes that containers mount; other volumes are not made.
fn mounted_names(pod: Pod<'_>) -> BTreeSet<&str> {
    let spec = pod.spec();
    let containers = spec.init_containers().iter().chain(spec.containers().iter());
    let own = containers.flat_map(|container| container.volume_mounts().iter().map(|mount| mount.name()));
    let later = spec.ephemeral_containers().iter().flat_map(|container| container.volume_mounts().iter());
    own.chain(later.map(|mount| mount.name())).collect()
}

async fn tokens(pod: Pod<'_>, volumes: &[Volume<'_>], references: &References) -> Tokens {
    let sources =
        volumes.iter().filter_map(|volume| volume.projected()).flat_map(|projected| projected.sources().iter());
    let wishes: BTreeSet<TokenWish> = sources.filter_map(|source| payload::wish(pod, source)).collect();
    let ask = |wish: TokenWish| async move {
        let token = references.token(&wish).await;
        (wish, token)
    };
    futures::future::join_all(wishes.into_iter().map(ask)).await.into_iter().collect()
}

/// Returns the plan of a volume that is no claim; `None` when no plugin supports it.
///
/// # Errors
/// When the volume cannot be made; upstream's text.
pub(super) fn plan(
    volume: Volume<'_>,
    pod: Pod<'_>,
    around: &Surroundings,
    known: (&Found, &Tokens),
) -> Result<Option<Plan>, PodError> {
    let name = Str::from(volume.name());
    if let Some(source) = volume.empty_dir() {
        return medium(source, pod, around).map(|medium| Some(Plan::EmptyDir { name, medium }));
    }
    if let Some(source) = volume.host_path() {
        return host_path(name, source).map(Some);
    }
    let memory =
        || if seeded_bug!("secret_on_disk") { Medium::Disk } else { Medium::Memory(tmpfs_size(None, pod, around)) };
    let mode = |mode: Option<i64>| mode.map_or(0o644, payload::permissions);
    let (plugin, medium, files) = if let Some(source) = volume.config_map() {
        let reference = crate::references::Reference::config_map(source.name());
        let (mode, optional) = (mode(source.default_mode()), source.optional() == Some(true));
        (Plugin::ConfigMap, Medium::Disk, payload::of_object(&reference, source.items(), mode, optional, known.0)?)
    } else if let Some(source) = volume.secret() {
        let reference = crate::references::Reference::secret(source.secret_name());
        let (mode, optional) = (mode(source.default_mode()), source.optional() == Some(true));
        (Plugin::Secret, memory(), payload::of_object(&reference, source.items(), mode, optional, known.0)?)
    } else if let Some(source) = volume.downward_api() {
        (Plugin::DownwardApi, memory(), payload::of_pod(pod, source.items(), mode(source.default_mode()), around)?)
    } else if let Some(projected) = volume.projected() {
        let mut files = Payload::new();
        let mut errors = Vec::new();
        for source in projected.sources().iter() {
            match payload::of_source(source, pod, mode(projected.default_mode()), around, known) {
                Ok(more) => files.extend(more),
                Err(why) => errors.push(why),
            }
        }
        if !errors.is_empty() {
            return Err(aggregated(&errors));
        }
        (Plugin::Projected, memory(), files)
    } else {
        return Ok(None);
    };
    Ok(Some(Plan::Files { name, plugin, files, medium }))
}

fn medium(source: EmptyDirVolumeSource<'_>, pod: Pod<'_>, around: &Surroundings) -> Result<Medium, PodError> {
    let page = |text: &str| {
        Quantity::parse(text).map(|size| size.value()).map_err(|error| PodError::Invalid(error.to_string()))
    };
    match source.medium() {
        "" => Ok(Medium::Disk),
        "Memory" => Ok(Medium::Memory(tmpfs_size(source.size_limit(), pod, around))),
        all @ "HugePages" => page_size(pod, all, None).map(Medium::HugePages),
        other => match other.strip_prefix("HugePages-") {
            Some(size) => page_size(pod, other, Some(page(size)?)).map(Medium::HugePages),
            None => Err(PodError::Invalid(format!("unknown storage medium \"{other}\""))),
        },
    }
}

/// Returns the size of a tmpfs in bytes: the minimum of the node's allocatable memory, the pod's memory limit and the volume's size limit; 0 without any of
/// them (upstream `calculateEmptyDirMemorySize`).
fn tmpfs_size(limit: Option<&str>, pod: Pod<'_>, around: &Surroundings) -> i64 {
    let parse = |text: &str| Quantity::parse(text).map_or(0, |size| size.value());
    let node = around.allocatable.get("memory").map_or(0, |text| parse(text));
    let sizes = [node, pod_limits(pod).memory.unwrap_or(0), limit.map_or(0, parse)];
    sizes.into_iter().filter(|size| *size > 0).min().unwrap_or(0)
}

/// Returns the single huge page size that the pod requests.
fn page_size(pod: Pod<'_>, medium: &str, wanted: Option<i64>) -> Result<i64, PodError> {
    let spec = pod.spec();
    let lists = spec.containers().iter().chain(spec.init_containers().iter()).map(|c| c.resources().requests());
    let lists = lists.chain(spec.resources().map(|whole| whole.requests()));
    let of = |name: &str| Quantity::parse(name.strip_prefix("hugepages-")?).ok().map(|size| size.value());
    let asked: BTreeSet<i64> =
        lists.flat_map(|list| list.iter().filter_map(|(name, _)| of(name)).collect::<Vec<_>>()).collect();
    let mut asked = asked.into_iter().filter(|size| wanted.is_none_or(|wanted| wanted == *size));
    match (asked.next(), asked.next()) {
        (Some(size), None) => Ok(size),
        (Some(_), Some(_)) => Err(PodError::Invalid(format!(
            "medium: {medium} can't be used if container requests multiple huge page sizes"
        ))),
        (None, _) => Err(PodError::Invalid(format!(
            "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        ))),
    }
}

/// Joins errors like Go's aggregates: each once, in brackets when there are several. Permanent if one of them is.
fn aggregated(errors: &[PodError]) -> PodError {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    if errors.iter().any(PodError::is_permanent) { PodError::Invalid(text) } else { PodError::NotReady(text) }
}

#[cfg(test)]
mod tests {
    use oarlock_client::decode;
    use oarlock_schema::type_of_kind;
    use serde_json::{Value, json};

    use super::*;

    const GIB: i64 = 1 << 30;

    fn planned(volume: &Value, spec: &Value) -> Result<Option<Plan>, PodError> {
        let mut spec = spec.clone();
        spec["volumes"] = json!([volume]);
        let pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        let pod = decode(type_of_kind("", "v1", "Pod").unwrap(), pod.to_string().as_bytes()).unwrap();
        let pod = downward::pod(&pod);
        let allocatable = [("memory".into(), "4Gi".into())].into_iter().collect();
        let around = Surroundings { allocatable, ..Surroundings::default() };
        let mut found = Found::default();
        let secret = json!({"data": {"key": "c2VjcmV0"}});
        let secret = decode(type_of_kind("", "v1", "Secret").unwrap(), secret.to_string().as_bytes()).unwrap();
        found.insert(crate::references::Reference::secret("s"), Ok(Arc::new(secret)));
        plan(pod.spec().volumes().get(0).unwrap(), pod, &around, (&found, &Tokens::new()))
    }

    fn medium_of(volume: &Value, spec: &Value) -> Result<Medium, PodError> {
        match planned(volume, spec)? {
            Some(Plan::EmptyDir { medium, .. } | Plan::Files { medium, .. }) => Ok(medium),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_secret_is_kept_in_memory() {
        let none = json!({"containers": []});
        for volume in [
            json!({"name": "v", "secret": {"secretName": "s"}}),
            json!({"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}),
        ] {
            assert!(matches!(medium_of(&volume, &none), Ok(Medium::Memory(_))), "{volume}");
        }
    }

    #[test]
    fn memory_is_the_least_of_node_pod_and_volume() {
        let volume = |limit: &str| json!({"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": limit}});
        let limited = |limit: &str| json!({"containers": [{"name": "c", "resources": {"limits": {"memory": limit}}}]});
        let open = json!({"containers": [{"name": "c"}]});
        assert_eq!(medium_of(&volume("0"), &open), Ok(Medium::Memory(4 * GIB)));
        assert_eq!(medium_of(&volume("8Gi"), &limited("2Gi")), Ok(Medium::Memory(2 * GIB)));
        assert_eq!(medium_of(&volume("1Gi"), &limited("2Gi")), Ok(Medium::Memory(GIB)));
    }

    #[test]
    fn huge_pages_are_those_that_the_pod_asks_for() {
        let volume = |medium: &str| json!({"name": "v", "emptyDir": {"medium": medium}});
        let asks = |sizes: &[&str]| {
            let requests: serde_json::Map<String, Value> =
                sizes.iter().map(|size| (format!("hugepages-{size}"), Value::from("2Gi"))).collect();
            json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
        };
        assert_eq!(medium_of(&volume("HugePages"), &asks(&["2Mi"])), Ok(Medium::HugePages(2 << 20)));
        assert_eq!(medium_of(&volume("HugePages-1Gi"), &asks(&["2Mi", "1Gi"])), Ok(Medium::HugePages(GIB)));
        let none = "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages";
        assert_eq!(medium_of(&volume("HugePages-1Gi"), &asks(&["2Mi"])), Err(PodError::Invalid(none.to_owned())));
        let two = "medium: HugePages can't be used if container requests multiple huge page sizes";
        assert_eq!(medium_of(&volume("HugePages"), &asks(&["2Mi", "1Gi"])), Err(PodError::Invalid(two.to_owned())));
        assert_eq!(
            medium_of(&volume("Tape"), &asks(&[])),
            Err(PodError::Invalid("unknown storage medium \"Tape\"".to_owned()))
        );
    }
}
