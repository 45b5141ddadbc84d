//! `/livez`, `/readyz`, `/healthz`: answers about all named checks or one, in upstream's format.

use crate::check::Finding;
use crate::slis;

/// The request to a health endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question<'a> {
    /// The endpoint: `healthz`, `livez` or `readyz`.
    pub endpoint: &'a str,
    /// The only check to answer for; empty for all.
    pub check: &'a str,
    /// Whether to list the checks even if all succeed.
    pub verbose: bool,
    /// The checks to leave out.
    pub exclude: Vec<&'a str>,
}

/// Returns the HTTP code and text that answer a health request.
#[must_use]
pub fn answer(question: &Question<'_>, findings: &[Finding]) -> (u16, String) {
    let Question { endpoint, check, verbose, exclude } = question;
    if !check.is_empty() {
        return match findings.iter().find(|finding| finding.name == *check).map(|finding| &finding.wrong) {
            None => (404, "404 page not found\n".to_owned()),
            Some(None) => (200, "ok".to_owned()),
            Some(Some(why)) => (500, format!("internal server error: {why}\n")),
        };
    }
    let asked = || findings.iter().filter(|finding| !exclude.contains(&finding.name));
    slis::observe(endpoint, asked());
    let failed = asked().any(|finding| finding.wrong.is_some() && !finding.informs);
    if !failed && !verbose {
        return (200, "ok".to_owned());
    }
    let line = |finding: &Finding| match (&finding.wrong, finding.informs) {
        (None, _) => format!("[+]{} ok\n", finding.name),
        (Some(why), true) => format!("[+]{} not needed: {why}\n", finding.name),
        (Some(why), false) => {
            tracing::debug!(endpoint, check = finding.name, why, "health check failed");
            format!("[-]{} failed: reason withheld\n", finding.name)
        }
    };
    let lines: String = asked().map(line).collect();
    match failed {
        true => (500, format!("{lines}{endpoint} check failed\n")),
        false => (200, format!("{lines}{endpoint} check passed\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(wrong: &[&'static str]) -> Vec<Finding> {
        let checks = [("ping", false), ("informer-sync", false), ("bus", true)];
        let finding =
            |(name, informs)| Finding { name, wrong: wrong.contains(&name).then(|| "it is away".to_owned()), informs };
        checks.map(finding).into()
    }

    fn ready(check: &str, query: &str, wrong: &[&'static str]) -> (u16, String) {
        let exclude = query.strip_prefix("exclude=").into_iter().collect();
        answer(&Question { endpoint: "readyz", check, verbose: query == "verbose", exclude }, &findings(wrong))
    }

    #[test]
    fn all_is_well_in_one_word_or_check_by_check() {
        assert_eq!(ready("", "", &[]), (200, "ok".to_owned()));
        let text = "[+]ping ok\n[+]informer-sync ok\n[+]bus ok\nreadyz check passed\n";
        assert_eq!(ready("", "verbose", &[]), (200, text.to_owned()));
    }

    #[test]
    fn what_fails_is_named_without_its_reason_and_can_be_left_out() {
        let text = "[+]ping ok\n[-]informer-sync failed: reason withheld\n[+]bus ok\nreadyz check failed\n";
        assert_eq!(ready("", "", &["informer-sync"]), (500, text.to_owned()));
        assert_eq!(ready("", "exclude=informer-sync", &["informer-sync"]).0, 200);
        assert_eq!(ready("", "exclude=ping", &["informer-sync"]).0, 500);
    }

    #[test]
    fn what_only_informs_is_told_and_fails_nothing() {
        assert_eq!(ready("", "", &["bus"]), (200, "ok".to_owned()));
        let text = "[+]ping ok\n[+]informer-sync ok\n[+]bus not needed: it is away\nreadyz check passed\n";
        assert_eq!(ready("", "verbose", &["bus"]), (200, text.to_owned()));
    }

    #[test]
    fn one_check_answers_for_itself() {
        assert_eq!(ready("ping", "", &["bus"]), (200, "ok".to_owned()));
        assert_eq!(ready("bus", "", &["bus"]), (500, "internal server error: it is away\n".to_owned()));
        assert_eq!(ready("nothing", "", &[]).0, 404);
    }
}
