// Lets a safetensors reader in Go take part in the conformance suite. Copy this file next to your main function:
//
//	func main() {
//		stc.Serve(stc.Program{Name: "my-reader", Version: "1.0", Lacks: []string{"dtype-f4"}}, func(path string, withData bool, answer *stc.Answer) error {
//			file, err := mine.Open(path)
//			if err != nil {
//				return err // rejects the file; return stc.Unsupported("...") for a valid file that is not supported
//			}
//			for _, t := range file.Tensors() {
//				answer.Tensor(t.Name, t.DType, t.Shape, t.Data)
//			}
//			answer.Metadata(file.Metadata())
//			return nil
//		})
//	}
//
// Report what your reader reports, and do not parse anything yourself. The shim reads the requests one at a time,
// computes digests and writes the answers. Output of the reader goes to standard error. A panic ends the program, as
// in any other program.
package stc

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// Program identifies the reader.
type Program struct {
	Name, Version string
	Lacks         []string // features that the reader lacks, such as "dtype-f4"
}

// Read reads a file, or only opens it if withData is false, and reports its content. An error rejects the file.
type Read func(path string, withData bool, answer *Answer) error

// Unsupported is the error for a valid file that the reader does not support.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// Answer is the answer for one file.
type Answer struct {
	withData bool
	tensors  []map[string]any
	metadata any
	tells    bool
}

// text is a JSON string, or {"hex": ...} for bytes that are not UTF-8.
func text(s string) any {
	if utf8.ValidString(s) {
		return s
	}
	return map[string]string{"hex": hex.EncodeToString([]byte(s))}
}

// Tensor reports a tensor. An empty dtype, a nil shape and nil data mean that the reader does not report them. The
// bytes must be in the order of the file. They are ignored if the file is only opened.
func (a *Answer) Tensor(name, dtype string, shape []uint64, data []byte) {
	row := map[string]any{"name": text(name)}
	if dtype != "" {
		row["dtype"] = text(dtype)
	}
	if shape != nil {
		row["shape"] = shape
	}
	if a.withData && data != nil {
		sum := sha256.Sum256(data)
		row["nbytes"], row["sha256"] = len(data), hex.EncodeToString(sum[:])
	}
	a.tensors = append(a.tensors, row)
}

// Metadata reports the metadata map, where nil means that the file has no metadata.
func (a *Answer) Metadata(metadata map[string]string) {
	a.tells = true
	if metadata == nil {
		return
	}
	pairs := [][2]any{}
	for key, value := range metadata {
		pairs = append(pairs, [2]any{text(key), text(value)})
	}
	a.metadata = pairs
}

type request struct {
	Cmd, Step, Path string
	Seq             json.Number
	Summary         bool
}

func run(asked request, read Read) map[string]any {
	out := map[string]any{"seq": asked.Seq, "outcome": "accept"}
	if asked.Step != "open" && asked.Step != "read" {
		out["outcome"], out["message"] = "unsupported", "the step is not known"
		return out
	}
	answer := &Answer{withData: asked.Step == "read", tensors: []map[string]any{}}
	switch err := read(asked.Path, answer.withData, answer); err := err.(type) {
	case nil:
	case Unsupported:
		out["outcome"], out["message"] = "unsupported", err.Error()
		return out
	default:
		out["outcome"], out["message"] = "reject", err.Error()
		return out
	}
	if asked.Summary {
		out["tensor_count"] = len(answer.tensors)
		return out
	}
	out["tensors"] = answer.tensors
	if answer.metadata != nil {
		out["metadata_items"] = answer.metadata
	} else if answer.tells {
		out["metadata"] = nil
	}
	return out
}

// Serve answers requests until there are no more.
func Serve(program Program, read Read) {
	answers := os.Stdout
	os.Stdout = os.Stderr // output of the reader must not appear between answers
	requests := bufio.NewReader(os.Stdin)
	for {
		line, err := requests.ReadString('\n')
		if err == io.EOF && strings.TrimSpace(line) == "" {
			return
		}
		var asked request
		if err := json.Unmarshal([]byte(line), &asked); err != nil {
			fmt.Fprintln(os.Stderr, "the request is no JSON:", err)
			os.Exit(2)
		}
		var out map[string]any
		switch asked.Cmd {
		case "stop":
			return
		case "start":
			if program.Lacks == nil {
				program.Lacks = []string{}
			}
			out = map[string]any{
				"protocol": 1, "steps": []string{"open", "read"}, "lacks": program.Lacks,
				"implementation": map[string]string{"name": program.Name, "version": program.Version, "language": "Go"},
			}
		default:
			out = run(asked, read)
		}
		if err := json.NewEncoder(answers).Encode(out); err != nil { // writes one line without buffering
			os.Exit(2)
		}
	}
}
