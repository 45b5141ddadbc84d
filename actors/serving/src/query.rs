//! Parses the query string of a request.

use http::Request;

/// The parameters of a query string, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query string of a request.
    #[must_use]
    pub fn of<B>(request: &Request<B>) -> Self {
        Self::parse(request.uri().query().unwrap_or(""))
    }

    /// Parses a query string, the text after the question mark.
    #[must_use]
    pub fn parse(query: &str) -> Self {
        Self(query.split('&').filter(|pair| !pair.is_empty()).map(decoded).collect())
    }

    /// Whether the query has the parameter `name`, with or without a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Returns the first value of the parameter `name`; empty if the query has none.
    #[must_use]
    pub fn first(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Returns all values of the parameter `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn decoded(pair: &str) -> (String, String) {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    (unescaped(name), unescaped(value))
}

/// Decodes form percent-encoding; invalid sequences are kept.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let digits = behind.first_chunk::<2>().filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match (byte, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                rest = behind.get(2..).unwrap_or_default();
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded() {
        let query = Query::parse("verbose&exclude=a&command=echo+a%20%26%2b&exclude=b");
        assert!(query.has("verbose") && !query.has("a"));
        assert_eq!(query.all("exclude").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((query.first("command"), query.first("verbose")), ("echo a &+", ""));
        assert_eq!(unescaped("100%"), "100%");
    }
}
