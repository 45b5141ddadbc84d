//! Minimal DER encoding and parsing. rcgen keeps one value per attribute type, but a Kubernetes user in two groups is a subject with two `O`; so the subject is encoded here
//! and inserted into the certificate before the certificate is signed.

/// Tag of a SEQUENCE.
pub(crate) const SEQUENCE: u8 = 0x30;
/// Tag of a SET.
pub(crate) const SET: u8 = 0x31;
/// Tag of an OBJECT IDENTIFIER.
pub(crate) const OID: u8 = 0x06;
/// Tag of a UTF8String.
pub(crate) const UTF8_STRING: u8 = 0x0c;
/// Tag of a BIT STRING.
pub(crate) const BIT_STRING: u8 = 0x03;

/// Encodes one element: tag, length, content.
pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let significant = bytes.iter().skip_while(|b| **b == 0).count();
        out.push(0x80 | significant as u8);
        out.extend(bytes.iter().skip(bytes.len() - significant));
    }
    out.extend_from_slice(content);
    out
}

/// Splits off the first element; returns its content, the whole element and the rest. `None` when the bytes are not definite-length DER.
pub(crate) fn split(input: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let first = usize::from(*input.get(1)?);
    let (length, header) = if first < 0x80 {
        (first, 2)
    } else {
        let count = first & 0x7f;
        if count == 0 || count > 4 {
            return None;
        }
        let bytes = input.get(2..2 + count)?;
        (bytes.iter().fold(0_usize, |acc, b| (acc << 8) | usize::from(*b)), 2 + count)
    };
    let end = header.checked_add(length)?;
    Some((input.get(header..end)?, input.get(..end)?, input.get(end..)?))
}

/// Copies the to-be-signed part of `certificate` with another subject (a whole DER Name); also returns the algorithm element after it. `None` when `certificate` is not a
/// certificate.
pub(crate) fn with_subject(certificate: &[u8], subject: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (outer, _, _) = split(certificate)?;
    let (tbs, _, after_tbs) = split(outer)?;
    let (_, algorithm, _) = split(after_tbs)?;
    // version, serial number, signature algorithm, issuer, validity; then the subject.
    let mut rest = tbs;
    for _ in 0..5 {
        rest = split(rest)?.2;
    }
    let before = tbs.get(..tbs.len() - rest.len())?;
    let after = split(rest)?.2;
    let content = [before, subject, after].concat();
    Some((element(SEQUENCE, &content), algorithm.to_vec()))
}
