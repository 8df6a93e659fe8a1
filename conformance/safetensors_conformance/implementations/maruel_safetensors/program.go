// Answers requests with github.com/maruel/safetensors: Parse.
package main

import (
	"os"

	"example.org/shims/stc"
	"github.com/maruel/safetensors"
)

func read(path string, withData bool, answer *stc.Answer) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	held, err := safetensors.Parse(file)
	if err != nil {
		return err
	}
	for _, t := range held.Tensors {
		answer.Tensor(t.Name, string(t.DType), t.Shape, t.Data)
	}
	answer.Metadata(held.Metadata)
	return nil
}

func main() {
	stc.Serve(stc.Program{
		Name: "maruel-safetensors",
		// The library's dtype.go names every dtype that it supports.
		Lacks: []string{
			"dtype-c64", "dtype-f4", "dtype-f6-e2m3", "dtype-f6-e3m2", "dtype-f8-e4m3fnuz",
			"dtype-f8-e5m2fnuz", "dtype-f8-e8m0",
		},
	}, read)
}
