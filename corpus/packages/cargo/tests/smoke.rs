//! Tests a minimal reader with the most basic cases.

use safetensors_corpus_data::{cases, Content, Expect};

/// The name, dtype, shape and number of bytes of a tensor.
type Row = (String, String, Vec<u64>, u64);

fn read(data: &[u8]) -> Option<Vec<Row>> {
    let size = u64::from_le_bytes(data.get(..8)?.try_into().ok()?);
    let end = usize::try_from(size).ok()?.checked_add(8)?;
    let header = std::str::from_utf8(data.get(8..end)?).ok()?.trim_end();
    let mut rest = header.strip_prefix('{')?.strip_suffix('}')?;
    let mut rows = Vec::new();
    while let Some(from) = rest.find('"') {
        let (name, behind) = rest[from + 1..].split_once("\":{")?;
        let (entry, left) = behind.split_once('}')?;
        rest = left;
        if name != "__metadata__" {
            let offsets = numbers(after(entry, "\"data_offsets\":[")?)?;
            let body = data.get(end + offsets[0] as usize..end + offsets[1] as usize)?;
            let dtype = after(entry, "\"dtype\":\"")?.split('"').next()?.to_string();
            rows.push((
                name.into(),
                dtype,
                numbers(after(entry, "\"shape\":[")?)?,
                body.len() as u64,
            ));
        }
    }
    Some(rows)
}

fn after<'a>(entry: &'a str, key: &str) -> Option<&'a str> {
    Some(entry.split_once(key)?.1)
}

fn numbers(list: &str) -> Option<Vec<u64>> {
    let inside = list.split(']').next()?;
    inside
        .split(',')
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().ok())
        .collect()
}

#[test]
fn smoke() {
    for case in cases()
        .iter()
        .filter(|case| case.smoke && case.kind == "read")
    {
        let got = read(&case.bytes().unwrap());
        match case.expect() {
            Expect::Reject(_) => assert!(got.is_none(), "{}: {got:?}", case.id),
            Expect::Accept(Content::Tensors { tensors, .. }) => {
                let text = |name: &[u8]| String::from_utf8(name.into()).unwrap();
                let row = |t: &safetensors_corpus_data::Tensor| {
                    (text(&t.name), t.dtype.into(), t.shape.clone(), t.nbytes)
                };
                assert_eq!(
                    got,
                    Some(tensors.iter().map(row).collect::<Vec<Row>>()),
                    "{}",
                    case.id
                );
            }
            other => panic!("{}: {other:?}", case.id),
        }
    }
}

#[test]
fn every_file_can_be_made() {
    for case in cases().iter().filter(|case| !case.heavy) {
        let size = case
            .json
            .get("input")
            .and_then(|input| input.get("size"))
            .and_then(|size| size.number());
        assert_eq!(
            case.bytes().unwrap().len() as u64,
            size.unwrap_or(case.bytes().unwrap().len() as u64),
            "{}",
            case.id
        );
        assert!(case.files("/models").is_ok(), "{}", case.id);
    }
}
