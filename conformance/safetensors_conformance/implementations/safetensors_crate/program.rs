//! Answers requests with the official crate: `SafeTensors::deserialize`, and `read_metadata` for the metadata.

mod stc_shim;

use safetensors::SafeTensors;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use stc_shim::{serve, Answer, Program, Refusal};

fn read(path: &[u8], with_data: bool, answer: &mut Answer) -> Result<(), Refusal> {
    let file = std::fs::read(OsStr::from_bytes(path))?;
    let held = SafeTensors::deserialize(&file)?;
    for (name, view) in held.iter() {
        let shape: Vec<u64> = view.shape().iter().map(|&size| size as u64).collect();
        let dtype = view.dtype().to_string();
        answer.tensor(name, Some(&dtype), Some(&shape), with_data.then_some(view.data()));
    }
    let (_, header) = SafeTensors::read_metadata(&file)?;
    answer.metadata(header.metadata().as_ref());
    Ok(())
}

fn main() {
    serve(&Program { name: "safetensors-crate", version: "", lacks: &[] }, read);
}
