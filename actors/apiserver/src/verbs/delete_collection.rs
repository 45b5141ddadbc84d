//! Deletes the objects that list options select: DELETE of a collection. Each object is deleted by the rules of a single deletion.

use oarlock_client::{DeleteOptions, List, ListOptions, Object};
use oarlock_meta::Status;

use super::{delete, list};
use crate::caller::Caller;
use crate::server::Server;
use crate::target::Target;

/// Deletes the selected objects and returns them.
///
/// # Errors
/// The errors of list, and of the first deletion that fails, unless because the object no longer exists.
pub async fn delete_collection(
    server: &Server,
    caller: &Caller,
    target: &Target<'_>,
    list_options: &ListOptions,
    options: &DeleteOptions,
) -> Result<List, Status> {
    delete::warn(caller, target, options);
    let selected = list::list(server, caller, target, list_options).await?;
    let mut items: Vec<Object> = Vec::with_capacity(selected.items.len());
    for object in &selected.items {
        let head = object.head()?;
        let one = Target { namespace: &head.namespace, name: &head.name, ..*target };
        match delete::delete(server, caller, &one, options).await {
            Ok(_) => items.push(object.clone()),
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
    }
    Ok(List { items, ..selected })
}
