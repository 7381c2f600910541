package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// runKstatus reads objects as JSON from its input, one after the other, and prints a
// line for each: its status as kstatus computes it, which is what Flux and helm wait for.
func runKstatus(_ *State, _ []string) error {
	decoder := json.NewDecoder(os.Stdin)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read an object: %w", err)
		}
		result, err := status.Compute(object)
		if err != nil {
			return fmt.Errorf("cannot compute the status of %s: %w", object.GetName(), err)
		}
		fmt.Println(result.Status)
	}
}
