//! Decides how to make each volume of a pod.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use oarlock_meta::Quantity;
use oarlock_schema::views::core_v1::{EmptyDirVolumeSource, HostPathVolumeSource, Pod, Volume};
use oarlock_schema::{Obj, Str};
use oarlock_seeded_bug::seeded_bug;

use super::Failed;
use super::claims;
use super::layout::Plugin;
use super::payload::{self, Payload, Tokens};
use crate::configs::pod_limits;
use crate::downward::{self, Surroundings};
use crate::references::{Found, References, TokenWish, of_volume};

/// How to make one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// An empty directory for the pod.
    EmptyDir { name: Str, medium: Medium },
    /// Files that project API objects.
    Files { name: Str, plugin: Plugin, files: Payload, medium: Medium },
    /// Files that cannot be computed now; an earlier version stays in use.
    Stale { name: Str, plugin: Plugin, why: String },
    /// A path of the node.
    HostPath { name: Str, path: PathBuf, kind: String },
    /// A path of the node from a PersistentVolume with the name `name`.
    Local { name: Str, path: PathBuf, read_only: bool },
}

/// Storage medium of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Disk,
    /// A tmpfs of this many bytes.
    Memory(i64),
    /// Huge pages of this many bytes each.
    HugePages(i64),
}

impl Medium {
    /// Whether the medium is a file system of its own.
    pub(super) const fn is_mounted(&self) -> bool {
        !matches!(self, Self::Disk)
    }
}

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
            Ok(None) => failed.add(name, "FindPluginBySpec", "no volume plugin matched"),
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
) -> Result<Option<Plan>, String> {
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
            return Err(aggregated(errors));
        }
        (Plugin::Projected, memory(), files)
    } else {
        return Ok(None);
    };
    Ok(Some(Plan::Files { name, plugin, files, medium }))
}

/// Returns the plan of a path of the node.
///
/// # Errors
/// When the path contains `..`; upstream's text.
pub(super) fn host_path(name: Str, source: HostPathVolumeSource<'_>) -> Result<Plan, String> {
    if source.path().split('/').any(|part| part == "..") {
        return Err(format!("invalid HostPath `{}`: must not contain '..'", source.path()));
    }
    Ok(Plan::HostPath { name, path: source.path().into(), kind: source.type_().unwrap_or("").to_owned() })
}

fn medium(source: EmptyDirVolumeSource<'_>, pod: Pod<'_>, around: &Surroundings) -> Result<Medium, String> {
    let page = |text: &str| Quantity::parse(text).map(|size| size.value()).map_err(|error| error.to_string());
    match source.medium() {
        "" => Ok(Medium::Disk),
        "Memory" => Ok(Medium::Memory(tmpfs_size(source.size_limit(), pod, around))),
        all @ "HugePages" => page_size(pod, all, None).map(Medium::HugePages),
        other => match other.strip_prefix("HugePages-") {
            Some(size) => page_size(pod, other, Some(page(size)?)).map(Medium::HugePages),
            None => Err(format!("unknown storage medium \"{other}\"")),
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
fn page_size(pod: Pod<'_>, medium: &str, wanted: Option<i64>) -> Result<i64, String> {
    let spec = pod.spec();
    let lists = spec.containers().iter().chain(spec.init_containers().iter()).map(|c| c.resources().requests());
    let lists = lists.chain(spec.resources().map(|whole| whole.requests()));
    let of = |name: &str| Quantity::parse(name.strip_prefix("hugepages-")?).ok().map(|size| size.value());
    let asked: BTreeSet<i64> =
        lists.flat_map(|list| list.iter().filter_map(|(name, _)| of(name)).collect::<Vec<_>>()).collect();
    let mut asked = asked.into_iter().filter(|size| wanted.is_none_or(|wanted| wanted == *size));
    match (asked.next(), asked.next()) {
        (Some(size), None) => Ok(size),
        (Some(_), Some(_)) => {
            Err(format!("medium: {medium} can't be used if container requests multiple huge page sizes"))
        }
        (None, _) => Err(format!(
            "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        )),
    }
}

/// Joins errors like Go's aggregates: each once, in brackets when there are several.
fn aggregated(mut errors: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use oarlock_client::decode;
    use oarlock_schema::type_of_kind;
    use serde_json::{Value, json};

    use super::*;

    const GIB: i64 = 1 << 30;

    fn planned(volume: &Value, spec: &Value) -> Result<Option<Plan>, String> {
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

    fn medium_of(volume: &Value, spec: &Value) -> Result<Medium, String> {
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
        assert_eq!(medium_of(&volume("HugePages-1Gi"), &asks(&["2Mi"])), Err(none.to_owned()));
        let two = "medium: HugePages can't be used if container requests multiple huge page sizes";
        assert_eq!(medium_of(&volume("HugePages"), &asks(&["2Mi", "1Gi"])), Err(two.to_owned()));
        assert_eq!(medium_of(&volume("Tape"), &asks(&[])), Err("unknown storage medium \"Tape\"".to_owned()));
    }
}
