//! The conformance corpus of the safetensors format, as data.

mod json;

pub use json::Json;
use std::sync::OnceLock;

static STORED: &[u8] = include_bytes!("../files.bin");
static MANIFEST: &str = include_str!("../corpus.json");

/// Version of the corpus.
pub const VERSION: &str = "{{corpus_version}}";
/// Maximum size in bytes of a file that `Case::bytes` and `Case::files` create in memory.
pub const LARGEST: u64 = 256 << 20;

/// One input with one purpose.
#[derive(Debug)]
pub struct Case {
    pub id: &'static str,
    pub kind: &'static str,
    pub title: &'static str,
    pub level: &'static str,
    pub rules: Vec<&'static str>,
    pub features: Vec<&'static str>,
    pub steps: Vec<&'static str>,
    pub smoke: bool,
    pub heavy: bool,
    /// The choice that the case is about, if good readers may differ in this case.
    pub choice: Option<&'static str>,
    /// The expectations of the options of the choice, or a single expectation with an empty name.
    pub options: Vec<(&'static str, Expect)>,
    /// The file to open, if the case has a folder.
    pub open: Option<&'static str>,
    /// All fields of the case, such as the action in cases of kinds other than `read`.
    pub json: &'static Json,
}

/// The required behaviour of an implementation.
#[derive(Debug)]
pub enum Expect {
    Accept(Content),
    /// Any rejection is correct. The codes are needed only to judge how well a reader explains it.
    Reject(Vec<&'static str>),
}

/// The content of a file. Names and metadata are bytes, because they may not be valid UTF-8.
#[derive(Debug)]
pub enum Content {
    Tensors {
        tensors: Vec<Tensor>,
        metadata: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    },
    /// Only the number of tensors, because a list would be too long.
    Count(u64),
    /// The content is not specified; the file must only be accepted.
    Unknown,
}

/// One tensor; `sha256` is the hexadecimal digest of its bytes.
#[derive(Debug)]
pub struct Tensor {
    pub name: Vec<u8>,
    pub dtype: &'static str,
    pub shape: Vec<u64>,
    pub nbytes: u64,
    pub sha256: &'static str,
}

/// The file is too large to create in memory; the value is its size in bytes.
#[derive(Debug)]
pub struct TooLarge(pub u64);

/// Returns the whole manifest, including rules, choices and codes.
pub fn manifest() -> &'static Json {
    static READ: OnceLock<Json> = OnceLock::new();
    READ.get_or_init(|| Json::read(MANIFEST))
}

/// Returns the cases.
pub fn cases() -> &'static [Case] {
    static READ: OnceLock<Vec<Case>> = OnceLock::new();
    READ.get_or_init(|| list(manifest(), "cases").iter().map(case).collect())
}

impl Case {
    /// Returns the only expectation. Panics for a case with a choice.
    pub fn expect(&self) -> &Expect {
        assert!(self.choice.is_none(), "{} is a case with a choice", self.id);
        &self.options[0].1
    }

    /// Returns the file. The result is empty if the case has a folder or no input.
    pub fn bytes(&self) -> Result<Vec<u8>, TooLarge> {
        let input = self.json.get("input").unwrap();
        if self.open.is_some() || *input == Json::Null {
            return Ok(Vec::new());
        }
        made(input)
    }

    /// Returns the files of a directory input that will be placed at `root`, as (path, bytes).
    pub fn files(&self, root: &str) -> Result<Vec<(&'static str, Vec<u8>)>, TooLarge> {
        let put_in = |data: Vec<u8>| match String::from_utf8(data) {
            Ok(text) => text.replace("@ROOT@", root).into_bytes(),
            Err(other) => other.into_bytes(),
        };
        let one = |file: &'static Json| {
            let template = file.get("template").is_some();
            made(file).map(|data| {
                (
                    text(file, "path"),
                    if template { put_in(data) } else { data },
                )
            })
        };
        list(self.json.get("input").unwrap(), "files")
            .iter()
            .map(one)
            .collect()
    }
}

fn case(json: &'static Json) -> Case {
    let expect = json.get("expect").unwrap();
    let choice = expect.get("choice").and_then(Json::text);
    let option = |(name, one): &'static (std::borrow::Cow<'static, str>, Json)| {
        (name.as_ref(), expectation(one))
    };
    Case {
        id: text(json, "id"),
        kind: text(json, "kind"),
        title: text(json, "title"),
        level: text(json, "level"),
        rules: texts(json, "rules"),
        features: texts(json, "features"),
        steps: texts(json, "steps"),
        smoke: json.get("smoke").is_some(),
        heavy: json.get("heavy").is_some(),
        choice,
        options: match expect.get("options") {
            Some(options) => options.fields().iter().map(option).collect(),
            None => vec![("", expectation(expect))],
        },
        open: json
            .get("input")
            .and_then(|input| input.get("open"))
            .and_then(Json::text),
        json,
    }
}

fn expectation(json: &'static Json) -> Expect {
    if text(json, "outcome") == "reject" {
        return Expect::Reject(texts(json, "codes"));
    }
    let Some(content) = json.get("content") else {
        return Expect::Accept(Content::Unknown);
    };
    if let Some(count) = content.get("tensor_count") {
        return Expect::Accept(Content::Count(count.number().unwrap()));
    }
    let tensors = list(content, "tensors").iter().map(|row| Tensor {
        name: raw(row.get("name").unwrap()),
        dtype: text(row, "dtype"),
        shape: list(row, "shape").iter().filter_map(Json::number).collect(),
        nbytes: row.get("nbytes").and_then(Json::number).unwrap(),
        sha256: text(row, "sha256"),
    });
    let metadata = match content.get("metadata").unwrap() {
        Json::Null => None,
        given if !list(given, "items").is_empty() => {
            let pair = |item: &Json| (raw(&item.items()[0]), raw(&item.items()[1]));
            Some(list(given, "items").iter().map(pair).collect())
        }
        given => Some(
            given
                .fields()
                .iter()
                .map(|(key, value)| (key.as_bytes().into(), raw(value)))
                .collect(),
        ),
    };
    Expect::Accept(Content::Tensors {
        tensors: tensors.collect(),
        metadata,
    })
}

fn text(json: &'static Json, key: &str) -> &'static str {
    json.get(key).and_then(Json::text).unwrap()
}

fn texts(json: &'static Json, key: &str) -> Vec<&'static str> {
    list(json, key).iter().filter_map(Json::text).collect()
}

fn list(json: &'static Json, key: &str) -> &'static [Json] {
    json.get(key).map_or(&[], Json::items)
}

/// Returns the bytes of a string, including strings that JSON cannot represent.
fn raw(json: &Json) -> Vec<u8> {
    match json.get("hex") {
        None => json.text().unwrap().into(),
        Some(hex) => {
            let digits = hex.text().unwrap();
            (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect()
        }
    }
}

fn made(file: &'static Json) -> Result<Vec<u8>, TooLarge> {
    let number = |json: &Json, key: &str| json.get(key).and_then(Json::number).unwrap_or(0);
    let size = number(file, "size");
    if size > LARGEST {
        return Err(TooLarge(size));
    }
    let mut out = Vec::with_capacity(size as usize);
    for part in list(file, "parts") {
        let place: Vec<usize> = part
            .items()
            .iter()
            .map(|n| n.number().unwrap() as usize)
            .collect();
        if let [at, length, times @ ..] = place.as_slice() {
            for _ in 0..times.first().copied().unwrap_or(1) {
                out.extend_from_slice(&STORED[*at..at + length]);
            }
        }
        out.resize(out.len() + number(part, "zeros") as usize, 0);
        let (first, separator) = (
            number(part, "first"),
            part.get("separator").and_then(Json::text).unwrap_or(""),
        );
        for i in first..first + number(part, "count") {
            if i > first {
                out.extend_from_slice(separator.as_bytes());
            }
            let item = text(part, "each").replace("{i}", &i.to_string());
            out.extend_from_slice(item.replace("{next}", &(i + 1).to_string()).as_bytes());
        }
    }
    Ok(out)
}
