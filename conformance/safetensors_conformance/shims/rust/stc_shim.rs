//! Lets a safetensors reader in Rust take part in the conformance suite. Copy this file next to `main.rs`:
//!
//! ```ignore
//! mod stc_shim;
//! use stc_shim::{serve, Answer, Program, Refusal};
//!
//! fn read(path: &[u8], with_data: bool, answer: &mut Answer) -> Result<(), Refusal> {
//!     let file = my_reader::open(path)?; // every error rejects the file
//!     for t in file.tensors() {
//!         answer.tensor(t.name(), Some(t.dtype()), Some(t.shape()), with_data.then(|| t.bytes()));
//!     }
//!     answer.metadata(file.metadata());
//!     Ok(())
//! }
//!
//! fn main() {
//!     serve(&Program { name: "my-reader", version: "1.0", lacks: &["dtype-f4"] }, read);
//! }
//! ```
//!
//! Report what your reader reports, and do not parse anything yourself. The shim reads the requests one at a time,
//! computes digests and writes the answers. A panic in the reader is reported as a crash. Text that the reader prints
//! with `println!` appears between the answers, where the harness ignores it. The shim needs only the standard
//! library.

use std::fmt::{Display, Write as _};
use std::io::{BufRead, Write as _};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The program that answers.
pub struct Program<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// Features that the reader lacks, such as "dtype-f4".
    pub lacks: &'a [&'a str],
}

/// The reason why a file is rejected.
pub enum Refusal {
    /// The file is broken.
    Rejected(String),
    /// The file is valid, but the reader does not support it.
    #[allow(dead_code)]
    Unsupported(String),
}

impl<E: Display> From<E> for Refusal {
    fn from(err: E) -> Self {
        Refusal::Rejected(err.to_string())
    }
}

/// The answer for one file.
#[derive(Default)]
pub struct Answer {
    tensors: String,
    metadata: Option<String>,
    tells_metadata: bool,
    summary: bool,
    count: u64,
}

impl Answer {
    /// Reports a tensor. Pass None for whatever the reader does not report. The bytes must be in the order of the
    /// file, and are None if the file is only opened.
    pub fn tensor<N: AsRef<[u8]>>(
        &mut self,
        name: N,
        dtype: Option<&str>,
        shape: Option<&[u64]>,
        bytes: Option<&[u8]>,
    ) {
        self.count += 1;
        if self.summary {
            return;
        }
        let out = &mut self.tensors;
        out.push_str(if out.is_empty() { "" } else { ", " });
        let _ = write!(out, "{{\"name\": {}", quoted(name.as_ref()));
        if let Some(dtype) = dtype {
            let _ = write!(out, ", \"dtype\": {}", quoted(dtype.as_bytes()));
        }
        if let Some(shape) = shape {
            let _ = write!(out, ", \"shape\": {shape:?}");
        }
        if let Some(bytes) = bytes {
            let _ = write!(out, ", \"nbytes\": {}, \"sha256\": \"{}\"", bytes.len(), sha256(bytes));
        }
        out.push('}');
    }

    /// Reports the metadata map, where None means that the file has no metadata.
    pub fn metadata<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, map: Option<impl IntoIterator<Item = (K, V)>>) {
        self.tells_metadata = true;
        let Some(map) = map else { return };
        let out = self.metadata.get_or_insert_with(String::new);
        for (key, value) in map {
            out.push_str(if out.is_empty() { "" } else { ", " });
            let _ = write!(out, "[{}, {}]", quoted(key.as_ref()), quoted(value.as_ref()));
        }
    }

    fn text(&self) -> String {
        if self.summary {
            return format!(", \"tensor_count\": {}", self.count);
        }
        let metadata = match &self.metadata {
            Some(items) => format!(", \"metadata_items\": [{items}]"),
            None if self.tells_metadata => ", \"metadata\": null".to_string(),
            None => String::new(),
        };
        format!(", \"tensors\": [{}]{metadata}", self.tensors)
    }
}

/// Answers requests until there are no more.
pub fn serve(program: &Program, read: impl Fn(&[u8], bool, &mut Answer) -> Result<(), Refusal>) {
    let mut answers = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let command = member(&line, "cmd").unwrap_or("\"stop\"");
        let answer = if command.starts_with("\"stop\"") {
            return;
        } else if command.starts_with("\"start\"") {
            start(program)
        } else {
            run(&line, &read)
        };
        // Write once and flush, because otherwise the harness waits forever.
        if answers.write_all(answer.as_bytes()).and_then(|()| answers.flush()).is_err() {
            return;
        }
    }
}

fn start(program: &Program) -> String {
    let lacks: Vec<String> = program.lacks.iter().map(|feature| quoted(feature.as_bytes())).collect();
    format!(
        "{{\"protocol\": 1, \"steps\": [\"open\", \"read\"], \"lacks\": [{}], \"implementation\": {{\"name\": {}, \
         \"version\": {}, \"language\": \"Rust\"}}}}\n",
        lacks.join(", "),
        quoted(program.name.as_bytes()),
        quoted(program.version.as_bytes())
    )
}

fn run(request: &str, read: &impl Fn(&[u8], bool, &mut Answer) -> Result<(), Refusal>) -> String {
    let seq: String = member(request, "seq").unwrap_or("0").chars().take_while(char::is_ascii_digit).collect();
    let step = member(request, "step").unwrap_or_default();
    let reading = step.starts_with("\"read\"");
    if !reading && !step.starts_with("\"open\"") {
        return format!("{{\"seq\": {seq}, \"outcome\": \"unsupported\"}}\n");
    }
    let summary = member(request, "summary").is_some_and(|value| value.starts_with("true"));
    let mut answer = Answer { summary, ..Answer::default() };
    let path = unescaped(member(request, "path").unwrap_or("\"\""));
    let told = match catch_unwind(AssertUnwindSafe(|| read(path.as_bytes(), reading, &mut answer))) {
        Ok(Ok(())) => format!("\"accept\"{}", answer.text()),
        Ok(Err(Refusal::Rejected(why))) => format!("\"reject\", \"message\": {}", quoted(why.as_bytes())),
        Ok(Err(Refusal::Unsupported(why))) => format!("\"unsupported\", \"message\": {}", quoted(why.as_bytes())),
        Err(_) => "\"crash\", \"message\": \"it panicked; standard error says where\"".to_string(),
    };
    format!("{{\"seq\": {seq}, \"outcome\": {told}}}\n")
}

/// Returns a JSON string, or {"hex": ...} for bytes that are not UTF-8.
fn quoted(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return format!("{{\"hex\": \"{}\"}}", hex(bytes));
    };
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' | '\0'..='\x1f' => drop(write!(out, "\\u{:04x}", c as u32)),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Returns the value of a key in the object. Requests from the harness are always well formed.
fn member<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                let begin = at + 1;
                at = begin;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if depth == 1 && text.get(begin..at) == Some(key) {
                    if let Some(value) = text[at + 1..].trim_start().strip_prefix(':') {
                        return Some(value.trim_start());
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the text of a JSON string.
fn unescaped(text: &str) -> String {
    let mut units: Vec<u16> = Vec::new();
    let mut rest = text[1..].chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => break,
            '\\' => match rest.next() {
                Some('u') => {
                    let digits: String = rest.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xFFFD));
                }
                Some(letter) => {
                    let at = "bfnrt".find(letter);
                    let meant = at.map_or(letter, |at| ['\x08', '\x0c', '\n', '\r', '\t'][at]);
                    units.extend_from_slice(meant.encode_utf16(&mut [0; 2]));
                }
                None => break,
            },
            _ => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
        }
    }
    String::from_utf16_lossy(&units)
}

/// SHA-256, FIPS 180-4, in hex.
fn sha256(bytes: &[u8]) -> String {
    let mut state: [u32; 8] = [
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    ];
    let whole = bytes.len() / 64 * 64;
    let mut last = bytes[whole..].to_vec();
    last.push(0x80);
    last.resize(if last.len() > 56 { 120 } else { 56 }, 0);
    last.extend_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in bytes[..whole].chunks(64).chain(last.chunks(64)) {
        let mut w = [0u32; 64];
        for i in 0..64 {
            w[i] = if i < 16 {
                u32::from_be_bytes([block[4 * i], block[4 * i + 1], block[4 * i + 2], block[4 * i + 3]])
            } else {
                let (a, b) = (w[i - 15], w[i - 2]);
                w[i - 16]
                    .wrapping_add(w[i - 7])
                    .wrapping_add(a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3))
                    .wrapping_add(b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10))
            };
        }
        let mut v = state;
        for i in 0..64 {
            let [a, b, c, d, e, f, g, h] = v;
            let one = h
                .wrapping_add(e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
                .wrapping_add((e & f) ^ (!e & g))
                .wrapping_add(K[i])
                .wrapping_add(w[i]);
            let two = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22))
                .wrapping_add((a & b) ^ (a & c) ^ (b & c));
            v = [one.wrapping_add(two), a, b, c, d.wrapping_add(one), e, f, g];
        }
        for (part, add) in state.iter_mut().zip(v) {
            *part = part.wrapping_add(add);
        }
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
];
