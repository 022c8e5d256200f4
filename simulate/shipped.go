package simulate

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed scenarios/*.json
var shipped embed.FS

// Names are the scenarios that come with the program, sorted.
func Names() []string {
	entries, _ := shipped.ReadDir("scenarios") // it is inside the program
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return names
}

// Shipped is the text of a scenario that comes with the program.
func Shipped(name string) ([]byte, error) {
	data, err := shipped.ReadFile(path.Join("scenarios", name+".json"))
	if err != nil {
		return nil, fmt.Errorf("simulate: there is no scenario %.60q; there are %s", name, strings.Join(Names(), ", "))
	}
	return data, nil
}
