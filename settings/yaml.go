package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// fromYAML is the same document in JSON; JSON itself is YAML, too. Anchors and
// merges are resolved; a key that stands twice is an error, as everywhere here.
func fromYAML(data []byte) ([]byte, error) {
	var doc any
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("settings: something follows the first document")
	}
	if doc == nil {
		doc = map[string]any{}
	}
	out, err := json.Marshal(doc)
	if err != nil { // keys that are no strings
		return nil, fmt.Errorf("settings: not an object with names: %w", err)
	}
	return out, nil
}
