//! Indented JSON for `?pretty=true`.

/// Adds line breaks and two spaces per level to compact JSON, as Go's `json.Indent` does.
#[must_use]
pub fn pretty(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let (mut inside, mut escaped) = (false, false);
    let mut opened = false;
    for byte in compact.iter().copied() {
        if inside {
            inside = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            out.push(byte);
            continue;
        }
        let closes = matches!(byte, b'}' | b']');
        if opened && !closes {
            line(&mut out, depth);
        }
        match byte {
            b'"' => {
                inside = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                depth += 1;
                out.push(byte);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !opened {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
        opened = matches!(byte, b'{' | b'[');
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    for _ in 0..depth {
        out.extend_from_slice(b"  ");
    }
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn lays_out_as_go() {
        let compact = br#"{"a":{},"b":[],"c":[1,{"d":"x,{\"}"}],"e":null}"#;
        let want = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x,{\\\"}\"\n    }\n  ],\n  \"e\": null\n}";
        assert_eq!(String::from_utf8(pretty(compact)).unwrap(), want);
    }
}
