//! Converts query parameters into the options of verbs.

use std::time::Duration;

use oarlock_client::{
    DeleteOptions, FieldValidation, GetOptions, ListOptions, Propagation, VersionMatch, WriteOptions,
};
use oarlock_meta::quote::is_printable;
use oarlock_meta::{ErrorList, FieldError, FieldSelector, GroupKind, LabelSelector, Path, Revision, Status};
use oarlock_schema::views::meta_v1::DeleteOptions as View;
use oarlock_schema::{Obj, Str};
use oarlock_seeded_bug::seeded_bug;

use super::request_info::{flag, pairs};

/// A decoded query string.
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

    /// Returns the first value of a parameter; an empty string when the parameter is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(k, _)| k == name).map_or("", |(_, v)| v.as_str())
    }

    /// Whether the query has the parameter.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(k, _)| k == name)
    }

    /// Returns all values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Returns the value of a boolean parameter.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.pairs.iter().find(|(k, _)| k == name).map(|(_, v)| flag(v))
    }

    /// Parses `resourceVersion`. The error is upstream's text about an invalid number, which each verb wraps in its own way.
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
        integer(text).map(Some)
    }
}

fn integer(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax")))
}

/// Parses the options of a get.
///
/// # Errors
/// 500, as upstream answers, for an invalid resourceVersion.
pub fn get(query: &Query) -> Result<GetOptions, Status> {
    Ok(GetOptions { resource_version: query.revision().map_err(Status::unexpected)? })
}

/// Parses the options of a list or watch.
///
/// # Errors
/// 400 for selectors and numbers that do not parse, 422 for forbidden combinations, 500 (as upstream answers) for a watch from an invalid
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

/// Narrows a list or watch to the object that its URL or selector names, because the request has been authorized for that object only.
///
/// # Errors
/// 400 when a field selector names another object, or none.
pub fn narrow(mut options: ListOptions, name: &str) -> Result<ListOptions, Status> {
    const NAME: &str = "metadata.name";
    if name.is_empty() || seeded_bug!("watch_path_forgets_its_name") {
        return Ok(options);
    }
    if options.field_selector.is_empty() {
        options.field_selector = FieldSelector::equal(NAME, name);
    } else if options.field_selector.exact(NAME) != Some(name) {
        return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
    }
    Ok(options)
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

/// Parses the options of a create, update or patch; `kind` names them in errors.
///
/// # Errors
/// 422 for unknown values, and for `force` on another request than an apply.
pub fn write(query: &Query, kind: &str, apply: bool) -> Result<WriteOptions, Status> {
    let mut errors = ErrorList::default();
    let dry_run = dry_run(query.all("dryRun"), &mut errors);
    let manager = query.get("fieldManager");
    const MANAGER_MAX: usize = 128;
    let path = Path::new("fieldManager");
    if manager.len() > MANAGER_MAX {
        errors.push(FieldError::too_long(&path, MANAGER_MAX));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let text = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
        errors.push(FieldError::invalid(&path, manager, text));
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

/// Parses the options of a deletion: those of the body, or of the query if there is no body. As upstream, the query is ignored when there is a body.
///
/// # Errors
/// 422 for unknown policies and policies that exclude one another.
pub fn delete(query: &Query, body: Option<&Obj>) -> Result<DeleteOptions, Status> {
    let asked = match body {
        Some(body) => RawDeleteOptions::of_body(body)?,
        None => RawDeleteOptions::of_query(query)?,
    };
    let mut errors = ErrorList::default();
    let policy = asked.policy.as_deref();
    if let (Some(policy), Some(_)) = (policy, asked.orphan) {
        let text = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&Path::new("propagationPolicy"), policy, text));
    }
    let propagation = match (policy, asked.orphan) {
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
    let dry_run = dry_run(asked.dry_run.iter().map(String::as_str), &mut errors);
    refuse("DeleteOptions", &errors)?;
    Ok(DeleteOptions {
        grace_period_seconds: asked.grace,
        propagation,
        uid: asked.uid,
        resource_version: asked.resource_version,
        dry_run,
    })
}

/// The options of a deletion as the client sent them.
#[derive(Default)]
struct RawDeleteOptions {
    grace: Option<i64>,
    policy: Option<String>,
    orphan: Option<bool>,
    dry_run: Vec<String>,
    uid: Option<Str>,
    resource_version: Option<Revision>,
}

impl RawDeleteOptions {
    fn of_body(body: &Obj) -> Result<Self, Status> {
        let Some(view) = body.view::<View<'_>>() else { return Err(Status::internal_error("no DeleteOptions")) };
        let preconditions = view.preconditions();
        let revision = preconditions.and_then(|p| p.resource_version());
        Ok(Self {
            grace: view.grace_period_seconds(),
            policy: view.propagation_policy().map(str::to_owned),
            orphan: view.orphan_dependents(),
            dry_run: view.dry_run().iter().map(str::to_owned).collect(),
            uid: preconditions.and_then(|p| p.uid()).map(Str::new),
            // An invalid revision becomes one that no object has, so that the precondition fails.
            resource_version: revision.map(|r| Revision(r.parse().unwrap_or(u64::MAX))),
        })
    }

    /// Reads the options from a query. Preconditions have no query parameter; only a body can state them.
    fn of_query(query: &Query) -> Result<Self, Status> {
        Ok(Self {
            grace: query.has("gracePeriodSeconds").then(|| integer(query.get("gracePeriodSeconds"))).transpose()?,
            policy: query.has("propagationPolicy").then(|| query.get("propagationPolicy").to_owned()),
            orphan: query.flag("orphanDependents"),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
            ..Self::default()
        })
    }
}

fn dry_run<'a>(asked: impl Iterator<Item = &'a str>, errors: &mut ErrorList) -> bool {
    let asked: Vec<&str> = asked.collect();
    if asked.iter().any(|value| *value != "All") {
        // Upstream's error shows the whole list, whichever value is wrong.
        let all: Vec<_> = asked.iter().map(|value| format!("{value:?}")).collect();
        let shown = format!("[{}]", all.join(","));
        errors.push(FieldError::not_supported(&Path::new("dryRun"), oarlock_meta::field::Raw(&shown), &["All"]));
    }
    asked.contains(&"All")
}

fn refuse(kind: &str, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: &str) -> Obj {
        let ty = oarlock_schema::type_named("meta/v1.DeleteOptions").unwrap();
        crate::http::body::delete_options(oarlock_codec::negotiate::Format::Json, &json.to_owned().into(), ty).unwrap()
    }

    #[test]
    fn a_body_silences_the_options_of_the_query() {
        let query = Query::new("gracePeriodSeconds=5&propagationPolicy=Foreground&dryRun=All");
        let asked = delete(&query, None).unwrap();
        assert_eq!(
            (asked.grace_period_seconds, asked.propagation, asked.dry_run),
            (Some(5), Some(Propagation::Foreground), true)
        );
        assert_eq!(delete(&query, Some(&body("{}"))).unwrap(), DeleteOptions::default());
        let one =
            body(r#"{"gracePeriodSeconds":7,"dryRun":["All"],"preconditions":{"uid":"a","resourceVersion":"3"}}"#);
        let asked = delete(&Query::new("gracePeriodSeconds=many&dryRun=no"), Some(&one)).unwrap();
        assert_eq!((asked.grace_period_seconds, asked.dry_run), (Some(7), true));
        assert_eq!((asked.uid.as_deref(), asked.resource_version), (Some("a"), Some(Revision(3))));
    }

    #[test]
    fn what_a_body_says_of_a_deletion_is_checked_as_the_query_is() {
        for (json, message) in [
            (r#"{"dryRun":["All","no"]}"#, r#"dryRun: Unsupported value: ["All","no"]: supported values: "All""#),
            (r#"{"propagationPolicy":"x"}"#, r#"propagationPolicy: Unsupported value: "x""#),
            (r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#, "cannot be both set"),
        ] {
            let status = delete(&Query::default(), Some(&body(json))).unwrap_err();
            assert_eq!(status.code, 422, "{status:?}");
            assert!(status.message.contains(message), "{status:?}");
        }
    }

    #[test]
    fn a_field_manager_has_printable_characters_only() {
        let refused = write(&Query::new("fieldManager=a%0Ab%E2%80%8B"), "PatchOptions", true).unwrap_err();
        assert_eq!(refused.code, 422);
        for wrong in ["invalid character U+000A (at position 1)", "invalid character U+200B (at position 3)"] {
            assert!(refused.message.contains(wrong), "{}", refused.message);
        }
        assert_eq!(write(&Query::new("fieldManager=a+%C3%A9"), "CreateOptions", false).unwrap().field_manager, "a é");
    }

    #[test]
    fn a_watch_by_path_shows_the_object_it_was_authorized_for_and_no_other() {
        let options = |query: &str, path: &str| {
            let info = crate::http::request_info::parse(&http::Method::GET, path, query).unwrap();
            narrow(list(&Query::new(query), info.verb == "watch")?, &info.name)
        };
        let path = "/api/v1/watch/namespaces/t/secrets/one";
        let narrowed = options("", path).unwrap();
        assert_eq!(narrowed.field_selector, FieldSelector::equal("metadata.name", "one"));
        // Further requirements of the selector are kept.
        let narrowed = options("fieldSelector=metadata.name%3Done,type%3DOpaque", path).unwrap();
        assert_eq!(narrowed.field_selector.requirements().len(), 2);
        for other in ["metadata.name%3Dtwo", "metadata.name!%3Done", "type%3DOpaque"] {
            let refused = options(&format!("fieldSelector={other}"), path).unwrap_err();
            let text = "fieldSelector metadata.name doesn't match requested name";
            assert_eq!((refused.code, refused.message.as_str()), (400, text), "{other}");
        }
        assert!(options("", "/api/v1/namespaces/t/secrets").unwrap().field_selector.is_empty());
    }
}
