//! Tests of snapshots: a round trip, and every kind of damage.

use bytes::{Bytes, BytesMut};
use oarlock_meta::Revision;

use super::{Encoder, Header, Object, ReadError, Reader, Summary};
use crate::Key;

fn objects() -> Vec<Object> {
    let pods = (0..7_u64).map(|n| Object {
        key: Key::namespaced("/registry/pods/", "default", &format!("p{n}")),
        revision: Some(Revision(10 + n)),
        value: Bytes::from("x".repeat(usize::try_from(n).unwrap() * 9)),
    });
    let node =
        Object { key: Key::cluster("/registry/minions/", "n"), revision: None, value: Bytes::from_static(b"{}") };
    std::iter::once(node).chain(pods).collect()
}

fn header(count: usize) -> Header {
    Header { cluster: "3f2a".into(), revision: Revision(17), count: count as u64 }
}

fn written(header: &Header, objects: &[Object]) -> (Vec<u8>, Summary) {
    let mut out = BytesMut::new();
    let mut encoder = Encoder::begin(header, &mut out);
    objects.iter().for_each(|object| encoder.object(object, &mut out).unwrap());
    let summary = encoder.end(&mut out);
    (out.into(), summary)
}

type Whole = (Header, Vec<Object>, Summary);

fn read(bytes: &[u8]) -> Result<Whole, ReadError> {
    let mut reader = Reader::open(bytes)?;
    let objects = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(reader.offset(), bytes.len() as u64);
    Ok((reader.header().clone(), objects, reader.summary().unwrap()))
}

/// The position of the reported damage.
fn place(refused: Result<Whole, ReadError>) -> Option<u64> {
    match refused {
        Err(ReadError::Damaged { offset, .. }) => Some(offset),
        Err(ReadError::Foreign | ReadError::Format(_)) => None,
        other => panic!("it was not refused as damaged: {other:?}"),
    }
}

#[test]
fn what_is_written_is_read() {
    for objects in [objects(), Vec::new()] {
        let (bytes, summary) = written(&header(objects.len()), &objects);
        assert_eq!(read(&bytes).unwrap(), (header(objects.len()), objects, summary));
    }
}

#[test]
fn a_truncated_snapshot_is_refused_where_it_ends() {
    let (bytes, _) = written(&header(8), &objects());
    for end in 0..bytes.len() {
        assert_eq!(place(read(&bytes[..end])), Some(end as u64), "cut at {end}");
    }
    let longer = [bytes.as_slice(), b"!"].concat();
    assert_eq!(place(read(&longer)), Some(bytes.len() as u64));
}

#[test]
fn any_changed_byte_is_refused_at_or_before_its_place() {
    let (bytes, _) = written(&header(8), &objects());
    for at in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            match place(read(&damaged)) {
                // An increased length is detected only at the end of the file.
                Some(offset) => assert!(offset <= at as u64 || offset == bytes.len() as u64, "{at}: said {offset}"),
                None => assert!(at < 12, "{at}: not said where"),
            }
        }
    }
    let mut refused = 0;
    for damaged in oarlock_testkit::damaged(1, &bytes, 3000) {
        match read(&damaged) {
            Ok(_) => assert_eq!(damaged, bytes),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 2500, "only {refused}");
}

#[test]
fn what_does_not_add_up_is_refused_though_every_part_is_whole() {
    let (few, _) = written(&header(9), &objects());
    assert!(read(&few).unwrap_err().to_string().contains("9 were announced"), "too few");
    let (whole, _) = written(&header(8), &objects());
    let (other, _) = written(&header(8), &objects()[1..]);
    // The objects of one snapshot and the end frame of another.
    let mixed = [&whole[..whole.len() - 49], &other[other.len() - 49..]].concat();
    assert!(read(&mixed).unwrap_err().to_string().contains("7 written"));
    let mut twice = objects();
    twice.swap(2, 3);
    let mut out = BytesMut::new();
    let mut encoder = Encoder::begin(&header(8), &mut out);
    let refused = twice.iter().find_map(|object| encoder.object(object, &mut out).err()).unwrap();
    assert!(refused.to_string().contains("p1 does not follow"), "{refused}");
}

#[test]
fn other_files_are_told_apart() {
    assert!(matches!(read(b"{\"kind\": \"List\"}"), Err(ReadError::Foreign)));
    let (mut later, _) = written(&header(8), &objects());
    later[8] = 2;
    assert!(matches!(read(&later), Err(ReadError::Format(2))));
}
