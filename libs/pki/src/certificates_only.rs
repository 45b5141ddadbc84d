//! Checks that a PEM text holds certificates and nothing else (upstream: `validateCertificate` of signing requests).

use base64::Engine as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
const KIND: &str = "CERTIFICATE";

/// Checks that a text has at least one PEM block, that every block is a certificate without headers, and that each certificate parses. Text outside blocks and undecodable
/// blocks are skipped, as Go's decoder does.
///
/// # Errors
/// Upstream's error message.
pub fn certificates_only(text: &str) -> Result<(), String> {
    let mut count = 0;
    for block in blocks(text) {
        if block.kind != KIND {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.kind));
        }
        if block.headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        count += 1;
        let mut rest: &[u8] = &block.content;
        if rest.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        while !rest.is_empty() {
            let (after, _) = X509Certificate::from_der(rest).map_err(|_| "x509: malformed certificate".to_owned())?;
            rest = after;
        }
    }
    if count == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

/// One decoded PEM block.
struct Block<'a> {
    kind: &'a str,
    headers: bool,
    content: Vec<u8>,
}

/// Returns every block that decodes, in order.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut lines = text.lines().map(str::trim_end).peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix(BEGIN).and_then(|kind| kind.strip_suffix(DASHES)) else { continue };
        let mut headers = false;
        let mut body = String::new();
        // A line that begins another block ends a block without an end line.
        while let Some(line) = lines.next_if(|line| !line.starts_with(BEGIN)) {
            if let Some(ended) = line.strip_prefix(END) {
                let content = base64::engine::general_purpose::STANDARD.decode(&body).ok();
                if let Some(content) = content.filter(|_| ended.strip_suffix(DASHES) == Some(kind)) {
                    found.push(Block { kind, headers, content });
                }
                break;
            }
            if body.is_empty() && line.contains(':') {
                headers = true;
            } else {
                body.extend(line.chars().filter(|c| !c.is_ascii_whitespace()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, UnixTime};

    fn pem(content: &[u8]) -> String {
        let text = base64::engine::general_purpose::STANDARD.encode(content);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn certificates_and_nothing_else_are_taken() {
        let ca = Authority::create("ca", UnixTime::since_unix_epoch(std::time::Duration::from_secs(1))).unwrap();
        let (good, der) = (ca.certificate_pem(), ca.certificate().to_vec());
        let key = ca.key_pem().unwrap();
        let twice = [der.as_slice(), &der].concat();
        let longer = [der.as_slice(), b"x"].concat();
        let none = "must contain at least one CERTIFICATE PEM block";
        let malformed = "x509: malformed certificate";
        let not_base64 = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
        // Answers of a live v1.35.0 server.
        for (text, expected) in [
            (good.clone(), Ok(())),
            (format!("{good}{good}"), Ok(())),
            (format!("text before\n{good}text after"), Ok(())),
            (format!("{good}{not_base64}"), Ok(())),
            (pem(&twice), Ok(())),
            (pem(&longer), Err(malformed)),
            (pem(der.get(..der.len() - 5).unwrap()), Err(malformed)),
            (pem(b"ABC"), Err(malformed)),
            (pem(b""), Err("found CERTIFICATE PEM block containing 0 certificates")),
            ("nonsense".to_owned(), Err(none)),
            (not_base64.to_owned(), Err(none)),
            ("-----BEGIN CERTIFICATE-----\nQUJD".to_owned(), Err(none)),
            (good.replacen("-----\n", "-----\nA: b\n\n", 1), Err("no PEM block headers are permitted")),
            (key.clone(), Err("only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\"")),
            (format!("{good}{key}"), Err("only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\"")),
        ] {
            assert_eq!(certificates_only(&text), expected.map_err(str::to_owned), "{text}");
        }
    }
}
