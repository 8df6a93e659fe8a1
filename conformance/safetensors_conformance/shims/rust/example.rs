//! An example of `stc_shim.rs` with a minimal reader, which searches the header
//! for known text. Your reader parses the JSON instead.
//!
//!     rustc -O -o example example.rs && stc check-protocol --impl "cmd:./example"

mod stc_shim;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use stc_shim::{serve, Answer, Program, Refusal};

/// Returns the text between two marks. The search starts at the first mark.
fn between<'a>(text: &'a str, before: &str, after: char) -> Result<&'a str, Refusal> {
    let missing = || format!("no {before} in {text}");
    let rest = &text[text.find(before).ok_or_else(missing)? + before.len()..];
    Ok(&rest[..rest.find(after).ok_or_else(missing)?])
}

fn numbers(text: &str) -> Result<Vec<u64>, Refusal> {
    let digits = text.split(',').map(str::trim).filter(|digits| !digits.is_empty());
    Ok(digits.map(str::parse).collect::<Result<_, _>>()?)
}

fn read(path: &[u8], with_data: bool, answer: &mut Answer) -> Result<(), Refusal> {
    let file = std::fs::read(OsStr::from_bytes(path))?;
    let prefix = file.first_chunk::<8>().ok_or("no length prefix")?;
    let length = u64::from_le_bytes(*prefix) as usize;
    let header = file[8..].get(..length).ok_or("the header leaves the file")?;
    let (header, data) = (std::str::from_utf8(header)?, &file[8 + length..]);
    let mut rest = header.strip_prefix('{').ok_or("no header")?;
    let mut metadata: Option<Vec<(String, String)>> = None;
    while let Some(at) = rest.find('"') {
        let name = between(&rest[at..], "\"", '"')?;
        let entry = between(&rest[at + name.len() + 2..], "{", '}')?;
        rest = &rest[entry.as_ptr() as usize - rest.as_ptr() as usize + entry.len()..];
        if name == "__metadata__" {
            let texts: Vec<String> = entry.split('"').skip(1).step_by(2).map(str::to_string).collect();
            metadata = Some(texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect());
            continue;
        }
        let shape = numbers(between(entry, "\"shape\":[", ']')?)?;
        let range = numbers(between(entry, "\"data_offsets\":[", ']')?)?;
        let [begin, end] = range[..] else { return Err("no pair of offsets".into()) };
        let bytes = data.get(begin as usize..end as usize).ok_or("a range leaves the file")?;
        let dtype = between(entry, "\"dtype\":\"", '"')?;
        answer.tensor(name, Some(dtype), Some(&shape), with_data.then_some(bytes));
    }
    answer.metadata(metadata);
    Ok(())
}

fn main() {
    serve(&Program { name: "example", version: "1.0", lacks: &["dtype-f4"] }, read);
}
