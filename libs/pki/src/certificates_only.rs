//! Checks that a PEM text holds certificates and nothing else (upstream: `validateCertificate` of signing requests).

use base64::Engine as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::der::{OID, SEQUENCE, split};

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
            let (after, _) = X509Certificate::from_der(rest).map_err(|_| refusal(rest).to_owned())?;
            rest = after;
        }
    }
    if count == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

/// Returns the reason with which Go's parser refuses a certificate: the first of its leading fields that is malformed. A certificate that is malformed further on
/// is refused as a whole.
fn refusal(certificate: &[u8]) -> &'static str {
    const INTEGER: u8 = 0x02;
    const VERSION: u8 = 0xa0;
    const NEGATIVE: u8 = 0x80;
    fn tagged(input: &[u8], tag: u8) -> bool {
        input.first() == Some(&tag) && split(input).is_some()
    }
    fn inside(input: &[u8]) -> (&[u8], &[u8]) {
        split(input).map_or((&[], &[]), |(content, _, rest)| (content, rest))
    }
    if !tagged(certificate, SEQUENCE) {
        return "x509: malformed certificate";
    }
    let (fields, _) = inside(certificate);
    if !tagged(fields, SEQUENCE) {
        return "x509: malformed tbs certificate";
    }
    let (mut fields, _) = inside(fields);
    if tagged(fields, VERSION) {
        let (version, rest) = inside(fields);
        match inside(version).0 {
            _ if !tagged(version, INTEGER) => return "x509: malformed version",
            [0..=2] => fields = rest,
            [] => return "x509: malformed version",
            [first, ..] if *first >= NEGATIVE => return "x509: malformed version",
            _ => return "x509: invalid version",
        }
    }
    let (serial, fields) = (fields, inside(fields).1);
    match inside(serial).0 {
        [] => return "x509: malformed serial number",
        _ if !tagged(serial, INTEGER) => return "x509: malformed serial number",
        [first, ..] if *first >= NEGATIVE => return "x509: negative serial number",
        _ => {}
    }
    if !tagged(fields, SEQUENCE) {
        return "x509: malformed signature algorithm identifier";
    }
    if tagged(inside(fields).0, OID) { "x509: malformed certificate" } else { "x509: malformed algorithm identifier" }
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

    /// Each answer is a live v1.35.0 server's.
    #[test]
    fn bytes_that_are_no_certificate_are_refused_for_their_first_malformed_field() {
        for (bytes, field) in [
            (&b"\0"[..], "malformed certificate"),
            (b"hello", "malformed certificate"),
            (b"\x30\x80\0\0", "malformed certificate"),
            (b"\x30\x00", "malformed tbs certificate"),
            (b"\x30\x03\x02\x01\x01", "malformed tbs certificate"),
            (b"\x30\x05\x30\x03\xa0\x01\x00", "malformed version"),
            (b"\x30\x0a\x30\x08\xa0\x03\x02\x01\x05\x02\x01\x01", "invalid version"),
            (b"\x30\x02\x30\x00", "malformed serial number"),
            (b"\x30\x07\x30\x05\xa0\x03\x02\x01\x01", "malformed serial number"),
            (b"\x30\x05\x30\x03\x02\x01\x80", "negative serial number"),
            (b"\x30\x05\x30\x03\x02\x01\x01", "malformed signature algorithm identifier"),
            (b"\x30\x0c\x30\x0a\xa0\x03\x02\x01\x02\x02\x01\x01\x30\x00", "malformed algorithm identifier"),
        ] {
            assert_eq!(certificates_only(&pem(bytes)), Err(format!("x509: {field}")), "{bytes:x?}");
        }
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
