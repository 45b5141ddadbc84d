//! Which controllers run.

use anyhow::bail;

/// The names to leave out of `known`, by the rules of upstream's `--controllers` and our `--disable`.
///
/// # Errors
/// When a name is not known: a controller that silently does not run is worse than a process that does not start.
pub(crate) fn disabled(known: &[&str], controllers: &[String], disable: &[String]) -> anyhow::Result<Vec<String>> {
    let named = controllers.iter().map(|name| name.strip_prefix('-').unwrap_or(name)).filter(|name| *name != "*");
    for name in named.chain(disable.iter().map(String::as_str)) {
        if !known.contains(&name) {
            bail!("{name:?} is no controller; there are {}", known.join(", "));
        }
    }
    let all = controllers.iter().any(|name| name == "*");
    let off = |name: &&&str| {
        // The first mention decides.
        let mention = controllers.iter().find(|one| one.strip_prefix('-').unwrap_or(one) == **name);
        let on = mention.map_or(all, |one| !one.starts_with('-'));
        !on || disable.iter().any(|one| one == **name)
    };
    Ok(known.iter().filter(off).map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_names_and_minuses_choose_as_upstream() {
        let known = ["a-controller", "b-controller", "c-controller"];
        let off = |controllers: &str, disable: &str| {
            let split =
                |text: &str| text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>();
            disabled(&known, &split(controllers), &split(disable)).map(|names| names.join(","))
        };
        for (controllers, disable, expected) in [
            ("*", "", ""),
            ("*,-b-controller", "", "b-controller"),
            ("-b-controller,*", "", "b-controller"),
            ("a-controller", "", "b-controller,c-controller"),
            ("*", "c-controller", "c-controller"),
            ("a-controller,-a-controller", "", "b-controller,c-controller"),
        ] {
            assert_eq!(off(controllers, disable).unwrap(), expected, "{controllers} {disable}");
        }
        assert!(off("*,-d-controller", "").is_err() && off("*", "d").is_err());
    }
}
