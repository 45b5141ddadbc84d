//! Query parameters as the options of verbs.

use std::time::Duration;

use oarlock_client::{
    DeleteOptions, FieldValidation, GetOptions, ListOptions, Propagation, VersionMatch, WriteOptions,
};
use oarlock_meta::{ErrorList, FieldError, FieldSelector, GroupKind, LabelSelector, Path, Revision, Status};
use oarlock_schema::views::meta_v1::DeleteOptions as View;
use oarlock_schema::{Obj, Str};

use super::request_info::{flag, pairs};

/// A query string, read.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(Str, Str)>,
}

impl Query {
    /// Splits and decodes a query string.
    #[must_use]
    pub fn new(query: &str) -> Self {
        Self { pairs: pairs(query).collect() }
    }

    /// The first value of a parameter; absent reads as empty.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(k, _)| k == name).map_or("", |(_, v)| v.as_str())
    }

    /// Whether the parameter is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(k, _)| k == name)
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// A boolean parameter.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.pairs.iter().find(|(k, _)| k == name).map(|(_, v)| flag(v))
    }

    /// `resourceVersion`; the error is upstream's text about one that is no number, which each verb wraps in its own way.
    fn revision(&self) -> Result<Option<Revision>, FieldError> {
        let text = self.get("resourceVersion");
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            FieldError::invalid(&Path::new("resourceVersion"), text, oarlock_meta::revision::invalid_syntax(text))
        })
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let text = self.get(name);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax")))
    }
}

/// Options of a get.
///
/// # Errors
/// 500, as upstream has it, for a bad resourceVersion.
pub fn get(query: &Query) -> Result<GetOptions, Status> {
    Ok(GetOptions { resource_version: query.revision().map_err(Status::unexpected)? })
}

/// Options of a list or watch.
///
/// # Errors
/// 400 for selectors and numbers that do not parse, 422 for combinations that are forbidden, 500 (as upstream has it) for a watch from a bad
/// resourceVersion.
pub fn list(query: &Query, watch: bool) -> Result<ListOptions, Status> {
    let label_selector =
        LabelSelector::parse(query.get("labelSelector")).map_err(|e| Status::bad_request(e.to_string()))?;
    let field_selector =
        FieldSelector::parse(query.get("fieldSelector")).map_err(|e| Status::bad_request(e.to_string()))?;
    let limit = u64::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0);
    let seconds = query.number("timeoutSeconds")?.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
    let continue_token = Str::new(query.get("continue"));
    let send_initial_events = query.flag("sendInitialEvents");
    let version_match = version_match(query, watch, send_initial_events)?;
    let resource_version = query.revision().map_err(|error| {
        if watch {
            Status::unexpected(error)
        } else {
            Status::bad_request(format!("invalid resource version: {error}"))
        }
    })?;
    if !continue_token.is_empty() && resource_version.is_some_and(|r| !r.is_zero()) {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(ListOptions {
        label_selector,
        field_selector,
        resource_version,
        version_match,
        limit,
        continue_token,
        send_initial_events,
        allow_bookmarks: query.flag("allowWatchBookmarks") == Some(true),
        timeout: seconds.map(Duration::from_secs),
    })
}

fn version_match(query: &Query, watch: bool, initial: Option<bool>) -> Result<Option<VersionMatch>, Status> {
    let mut errors = ErrorList::default();
    let path = Path::new("resourceVersionMatch");
    let (text, version) = (query.get("resourceVersionMatch"), query.get("resourceVersion"));
    const WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";
    let continues = !query.get("continue").is_empty();
    if watch {
        if initial.is_some() && text != "NotOlderThan" {
            errors.push(FieldError::forbidden(
                &path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if initial.is_none() && !text.is_empty() {
            errors.push(FieldError::forbidden(
                &path,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if !matches!(text, "" | "NotOlderThan") {
            errors.push(FieldError::not_supported(&path, text, &["NotOlderThan"]));
        }
        if continues {
            errors.push(FieldError::forbidden(&path, WITH_CONTINUE));
        }
    } else {
        if !text.is_empty() {
            if version.is_empty() {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if continues {
                errors.push(FieldError::forbidden(&path, WITH_CONTINUE));
            }
            if !matches!(text, "Exact" | "NotOlderThan") {
                errors.push(FieldError::not_supported(&path, text, &["Exact", "NotOlderThan", ""]));
            } else if text == "Exact" && version == "0" {
                errors.push(FieldError::forbidden(
                    &path,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if initial.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
    }
    refuse("ListOptions", &errors)?;
    Ok(match text {
        "Exact" => Some(VersionMatch::Exact),
        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
        _ => None,
    })
}

/// Options of a create, update or patch; `kind` names them in errors.
///
/// # Errors
/// 422 for unknown words and for `force` where it does not belong.
pub fn write(query: &Query, kind: &str, apply: bool) -> Result<WriteOptions, Status> {
    let mut errors = ErrorList::default();
    let dry_run = dry_run(query, &mut errors);
    let manager = query.get("fieldManager");
    const MANAGER_MAX: usize = 128;
    let path = Path::new("fieldManager");
    if manager.len() > MANAGER_MAX {
        errors.push(FieldError::too_long(&path, MANAGER_MAX));
    }
    if apply && manager.is_empty() {
        errors.push(FieldError::required(&path, "is required for apply patch"));
    }
    if !apply && query.has("force") && kind == "PatchOptions" {
        errors.push(FieldError::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
    }
    let field_validation = match query.get("fieldValidation") {
        "" => FieldValidation::Unset,
        "Ignore" => FieldValidation::Ignore,
        "Warn" => FieldValidation::Warn,
        "Strict" => FieldValidation::Strict,
        other => {
            errors.push(FieldError::not_supported(
                &Path::new("fieldValidation"),
                other,
                &["", "Ignore", "Strict", "Warn"],
            ));
            FieldValidation::Unset
        }
    };
    refuse(kind, &errors)?;
    Ok(WriteOptions {
        dry_run,
        field_manager: manager.into(),
        field_validation,
        force: query.flag("force") == Some(true),
    })
}

/// Options of a deletion: the body's, or if there is none the query's.
///
/// # Errors
/// 422 for policies that do not exist or exclude one another.
pub fn delete(query: &Query, body: Option<&Obj>) -> Result<DeleteOptions, Status> {
    let mut errors = ErrorList::default();
    let view = body.and_then(|b| b.view::<View<'_>>());
    let policy =
        view.and_then(|v| v.propagation_policy()).map(str::to_owned).or_else(|| text_of(query, "propagationPolicy"));
    let orphan = view.and_then(|v| v.orphan_dependents()).or_else(|| query.flag("orphanDependents"));
    if orphan.is_some() && policy.is_some() {
        let text = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&Path::new("propagationPolicy"), policy.as_deref().unwrap_or(""), text));
    }
    let propagation = match (policy.as_deref(), orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some(other), _) => {
            let path = Path::new("propagationPolicy");
            errors.push(FieldError::not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]));
            None
        }
        (None, None) => None,
    };
    let mut dry_run = dry_run(query, &mut errors);
    dry_run |= view.is_some_and(|v| v.dry_run().iter().any(|d| d == "All"));
    refuse("DeleteOptions", &errors)?;
    let preconditions = view.and_then(|v| v.preconditions());
    let revision = preconditions.and_then(|p| p.resource_version());
    Ok(DeleteOptions {
        grace_period_seconds: view.and_then(|v| v.grace_period_seconds()).or(query.number("gracePeriodSeconds")?),
        propagation,
        uid: preconditions.and_then(|p| p.uid()).map(Str::new),
        // A text that is no revision cannot match one.
        resource_version: revision.map(|r| Revision(r.parse().unwrap_or(u64::MAX))),
        dry_run,
    })
}

fn text_of(query: &Query, name: &str) -> Option<String> {
    query.has(name).then(|| query.get(name).to_owned())
}

fn dry_run(query: &Query, errors: &mut ErrorList) -> bool {
    if query.all("dryRun").any(|v| v != "All") {
        // Upstream shows the whole list, whichever value is wrong.
        let all: Vec<_> = query.all("dryRun").map(|value| format!("{value:?}")).collect();
        let shown = format!("[{}]", all.join(","));
        errors.push(FieldError::not_supported(&Path::new("dryRun"), oarlock_meta::field::Raw(&shown), &["All"]));
    }
    query.all("dryRun").any(|v| v == "All")
}

fn refuse(kind: &str, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors.as_slice()))
}
