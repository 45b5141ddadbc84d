//! Address families of Services, in a cluster that has IPv4 (upstream `initIPFamilyFields`).

use oarlock_meta::field::Raw;
use oarlock_meta::{ErrorList, FieldError, Path};
use oarlock_schema::views::core_v1::{Service, ServiceSpec};
use oarlock_schema::{Obj, Value};

/// The IP family of this cluster's Service range.
const OWN: &str = "IPv4";
const POLICY: [&str; 2] = ["spec", "ipFamilyPolicy"];
const FAMILIES: [&str; 2] = ["spec", "ipFamilies"];
const ADDRESSES: [&str; 2] = ["spec", "clusterIPs"];

/// Fills in `ipFamilyPolicy` and `ipFamilies` of a Service that is not an ExternalName. Without errors the Service fits this cluster.
#[must_use]
pub(super) fn settle(obj: &mut Obj, old: Option<&Obj>) -> ErrorList {
    let mut errors = ErrorList::new();
    if old.is_some_and(|old| keeps_its_preference(obj, old)) {
        return errors;
    }
    if text(obj, &POLICY).is_empty() {
        let before = old.map(|old| text(old, &POLICY)).filter(|policy| !policy.is_empty());
        let fresh = if is_free(obj) { "RequireDualStack" } else { "SingleStack" };
        obj.set_at(&POLICY, before.unwrap_or_else(|| fresh.to_owned()));
    }
    let policy = text(obj, &POLICY);
    if let Some(old) = old {
        release(obj, old, &policy, &mut errors);
    }
    single(obj, &policy, &mut errors);
    infer(obj, &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    if is_free(obj) {
        free(obj, &policy);
        return errors;
    }
    configured(obj, &policy, &mut errors);
    if errors.is_empty() && list(obj, &FAMILIES).is_empty() {
        put(obj, &FAMILIES, &[OWN.to_owned()]);
    }
    errors
}

fn text(obj: &Obj, path: &[&str]) -> String {
    obj.at(path).and_then(Value::as_str).unwrap_or("").to_owned()
}

fn list(obj: &Obj, path: &[&str]) -> Vec<String> {
    obj.at(path).map_or(&[][..], Value::items).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn put(obj: &mut Obj, path: &[&str], items: &[String]) {
    obj.set_at(path, items.iter().map(String::as_str).collect::<Value>());
}

fn spec(obj: &Obj) -> ServiceSpec<'_> {
    obj.view::<Service<'_>>().map_or_else(|| ServiceSpec::from_option(None), Service::spec)
}

/// Whether a Service is headless without a selector: the client that writes its endpoints decides on their families.
fn is_free(obj: &Obj) -> bool {
    spec(obj).cluster_ip() == "None" && spec(obj).selector().is_empty()
}

/// Whether an update keeps the families of a Service with `PreferDualStack`, because no field that decides them has changed.
fn keeps_its_preference(new: &Obj, old: &Obj) -> bool {
    let same = |path: &[&str]| list(new, path) == list(old, path);
    let before = text(old, &POLICY);
    text(new, &POLICY) == "PreferDualStack"
        && (before.is_empty() || before == "PreferDualStack")
        && spec(new).type_() == spec(old).type_()
        && same(&ADDRESSES)
        && same(&FAMILIES)
}

/// Drops the second address and family when the policy becomes `SingleStack`. Under any other policy an update that drops one is refused.
fn release(new: &mut Obj, old: &Obj, policy: &str, errors: &mut ErrorList) {
    for (path, what) in [(&ADDRESSES, "cluster IP"), (&FAMILIES, "IP family")] {
        let (now, before) = (list(new, path), list(old, path));
        if policy == "SingleStack" {
            if now == before && now.len() > 1 {
                put(new, path, now.get(..1).unwrap_or_default());
            }
        } else if !now.is_empty() && now.len() < before.len() {
            let text = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(FieldError::invalid(&Path::new("spec").child("ipFamilyPolicy"), policy, text));
        }
    }
}

fn single(obj: &Obj, policy: &str, errors: &mut ErrorList) {
    for (path, what) in [(&ADDRESSES, "cluster IPs"), (&FAMILIES, "IP families")] {
        if policy == "SingleStack" && list(obj, path).len() == 2 {
            let text = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(FieldError::invalid(&Path::new("spec").child("ipFamilyPolicy"), policy, text));
        }
    }
}

/// Derives the families that the Service does not state from its addresses.
fn infer(obj: &mut Obj, errors: &mut ErrorList) {
    let (addresses, mut families) = (list(obj, &ADDRESSES), list(obj, &FAMILIES));
    let count = families.len();
    for (i, address) in addresses.iter().enumerate() {
        if address == "None" {
            break;
        }
        let six = matches!(address.parse(), Ok(std::net::IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none());
        if i < families.len() || address.is_empty() {
            continue;
        }
        if six {
            let at = Path::new("spec");
            let at = at.child("clusterIPs");
            let shown: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
            let shown = Raw(format!("[{}]", shown.join(",")));
            errors.push(FieldError::invalid(&at.index(i), shown, "IPv6 is not configured on this cluster"));
        } else {
            families.push(OWN.to_owned());
        }
    }
    if families.len() > count {
        put(obj, &FAMILIES, &families);
    }
}

/// Fills in the families of a headless Service without a selector, which may be families that this cluster lacks.
fn free(obj: &mut Obj, policy: &str) {
    let mut families = list(obj, &FAMILIES);
    if families.is_empty() {
        families.push(OWN.to_owned());
    }
    if families.len() < 2 && policy != "SingleStack" {
        let other = if families.first().is_some_and(|family| family == "IPv4") { "IPv6" } else { "IPv4" };
        families.push(other.to_owned());
    }
    put(obj, &FAMILIES, &families);
}

fn configured(obj: &Obj, policy: &str, errors: &mut ErrorList) {
    let at = Path::new("spec");
    if policy == "RequireDualStack" {
        let text = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&at.child("ipFamilyPolicy"), policy, text));
    }
    for (i, family) in list(obj, &FAMILIES).iter().enumerate().filter(|(_, family)| *family != OWN) {
        let text = "not configured on this cluster";
        errors.push(FieldError::invalid(&at.child("ipFamilies").index(i), family.as_str(), text));
    }
}

#[cfg(test)]
mod tests {
    use oarlock_codec::{Mode, json};
    use oarlock_schema::resource;

    use super::*;

    fn service(spec: &str) -> Obj {
        let text = format!(r#"{{"spec":{{{spec}}}}}"#);
        json::decode(text.as_bytes(), resource("", "v1", "services").unwrap().ty, Mode::Strict).unwrap().value
    }

    fn settled(new: &str, old: Option<&str>) -> Result<(String, String), Vec<String>> {
        let mut obj = service(new);
        let errors = settle(&mut obj, old.map(service).as_ref());
        if errors.is_empty() {
            return Ok((list(&obj, &FAMILIES).join("+"), text(&obj, &POLICY)));
        }
        Err(errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect())
    }

    const FREE: &str = r#""clusterIP":"None","clusterIPs":["None"]"#;
    const CHOSEN: &str = r#""selector":{"a":"b"}"#;

    /// Each expected result is upstream's answer to the same Service.
    #[test]
    fn families_follow_from_policy_addresses_and_selector() {
        let ok = |new: &str, families: &str, policy: &str| {
            assert_eq!(settled(new, None), Ok((families.to_owned(), policy.to_owned())), "{new}");
        };
        let with = |base: &str, more: &str| format!("{base},{more}");
        ok(FREE, "IPv4+IPv6", "RequireDualStack");
        ok(CHOSEN, "IPv4", "SingleStack");
        ok(&with(FREE, CHOSEN), "IPv4", "SingleStack");
        ok(&with(FREE, r#""ipFamilyPolicy":"SingleStack","ipFamilies":["IPv6"]"#), "IPv6", "SingleStack");
        ok(&with(FREE, r#""ipFamilies":["IPv6"]"#), "IPv6+IPv4", "RequireDualStack");
        ok(&with(FREE, r#""ipFamilyPolicy":"PreferDualStack""#), "IPv4+IPv6", "PreferDualStack");
        ok(&with(CHOSEN, r#""ipFamilyPolicy":"PreferDualStack""#), "IPv4", "PreferDualStack");
    }

    #[test]
    fn families_that_the_cluster_lacks_are_refused_where_an_address_is_wanted() {
        let no = |new: &str, errors: &[&str]| assert_eq!(settled(new, None).unwrap_err(), errors, "{new}");
        let require = r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#;
        let six = r#": Invalid value: "IPv6": not configured on this cluster"#;
        let several = r#"spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"#;
        no(&format!(r#"{CHOSEN},"ipFamilyPolicy":"RequireDualStack""#), &[require]);
        no(&format!(r#"{CHOSEN},"ipFamilies":["IPv4","IPv6"]"#), &[several]);
        no(&format!(r#"{CHOSEN},"ipFamilies":["IPv6"]"#), &[&format!("spec.ipFamilies[0]{six}")]);
        no(
            &format!(r#"{CHOSEN},"ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv4","IPv6"]"#),
            &[require, &format!("spec.ipFamilies[1]{six}")],
        );
        no(
            &format!(r#"{CHOSEN},"clusterIP":"fd00::1","clusterIPs":["fd00::1"]"#),
            &[r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#],
        );
    }

    #[test]
    fn a_change_keeps_its_families_unless_it_says_otherwise() {
        let both = format!(r#"{FREE},"ipFamilies":["IPv4","IPv6"]"#);
        let old = format!(r#"{both},"ipFamilyPolicy":"RequireDualStack""#);
        let ok = |new: &str, old: &str, families: &str, policy: &str| {
            assert_eq!(settled(new, Some(old)), Ok((families.to_owned(), policy.to_owned())), "{new}");
        };
        ok(&both, &old, "IPv4+IPv6", "RequireDualStack");
        ok(&format!(r#"{both},"ipFamilyPolicy":"SingleStack""#), &old, "IPv4", "SingleStack");
        let named = r#""type":"ExternalName","externalName":"a.b""#;
        ok(r#""type":"ClusterIP","ipFamilyPolicy":"PreferDualStack""#, named, "IPv4", "PreferDualStack");
        ok(&format!(r#""type":"ClusterIP",{FREE}"#), named, "IPv4+IPv6", "RequireDualStack");
        let chosen = format!(r#"{old},{CHOSEN}"#);
        assert_eq!(settled(&chosen, Some(&old)).unwrap_err().len(), 2);
    }
}
