//! Chooses the container of a pod that a request is about (upstream `validateContainer`).

use oarlock_meta::Status;
use oarlock_schema::Obj;
use oarlock_schema::views::core_v1::Pod;

/// Returns the named container, or the only one.
///
/// # Errors
/// 400 when there is no such container, or when there are several and the request names none.
pub(crate) fn choose(pod: &Obj, asked: &str) -> Result<String, Status> {
    let Some(view) = pod.view::<Pod<'_>>() else { return Err(Status::internal_error("stored pod is no pod")) };
    let spec = view.spec();
    let init = spec.init_containers().iter().map(|container| container.name());
    let main = spec.containers().iter().map(|container| container.name());
    let ephemeral = spec.ephemeral_containers().iter().map(|container| container.name());
    let all: Vec<&str> = init.chain(main).chain(ephemeral).collect();
    let name = pod.name();
    if asked.is_empty() {
        return match spec.containers().len() {
            1 => Ok(spec.containers().iter().next().map_or("", |only| only.name()).to_owned()),
            0 => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
            _ => {
                let all = all.join(" ");
                let text = format!("a container name must be specified for pod {name}, choose one of: [{all}]");
                Err(Status::bad_request(text))
            }
        };
    }
    if all.contains(&asked) {
        return Ok(asked.to_owned());
    }
    Err(Status::bad_request(format!("container {asked} is not valid for pod {name}")))
}
