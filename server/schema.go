package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"dibs/api"
	"dibs/call"
)

// strictNames makes "To" an unknown field. It is a setting of the whole process,
// and this package is the only one that uses the library.
var strictNames = sync.OnceFunc(func() { huma.ValidateStrictCasing = true })

// describe begins the OpenAPI description; the routes add to it.
func (s *Server) describe() {
	strictNames()
	cfg := huma.DefaultConfig("Dibs", "1")
	cfg.CreateHooks = nil // no $schema in answers
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.RejectUnknownQueryParameters = true
	cfg.Transformers = []huma.Transformer{s.transform}
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decode}
	cfg.Formats = map[string]huma.Format{"application/json": format, "json": format}
	cfg.Info.Description = "A warm pool of voice bots, and the line of calls that wait for one. " +
		"Numbers are masked unless revealed; everything that is not done is a Problem with a stable code."
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}}
	if s.cfg.PublicURL != "" {
		cfg.Servers = []*huma.Server{{URL: s.cfg.PublicURL}}
	}
	s.huma = humago.New(s.mux, cfg)
	s.schemas().RegisterTypeAlias(reflect.TypeFor[call.Interval](), reflect.TypeFor[interval]())
}

func (s *Server) schemas() huma.Registry { return s.huma.OpenAPI().Components.Schemas }

// interval is how a call.Interval looks in JSON: ["09:00","18:00"].
type interval struct{}

// Schema is two times of day.
func (interval) Schema(huma.Registry) *huma.Schema {
	two := 2
	clock := &huma.Schema{
		Type: huma.TypeString, Pattern: "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$",
		PatternDescription: "a time of day, 00:00 to 24:00", Examples: []any{"09:00"},
	}
	return &huma.Schema{Type: huma.TypeArray, Items: clock, MinItems: &two, MaxItems: &two}
}

// decode is json.Unmarshal with errors that are fit to be shown.
func decode(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("not UTF-8")
	}
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("byte %d: %w", se.Offset, se)
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(te.Value, " ") // "number 4915…" would repeat it
		return fmt.Errorf("%s: a %s that does not fit", te.Field, kind)
	}
	return errors.New("a value does not fit its field")
}

// responses describe what an operation answers when it is not done.
func (s *Server) responses(codes []string) map[string]*huma.Response {
	schema := s.schemas().Schema(reflect.TypeFor[api.Problem](), true, "Problem")
	content := map[string]*huma.MediaType{problemType: {Schema: schema}}
	words := map[int][]string{}
	for _, c := range codes {
		status := api.CodeOf(c).Status
		words[status] = append(words[status], c)
	}
	out := map[string]*huma.Response{"default": {Description: "Any other code.", Content: content}}
	for status, all := range words {
		slices.Sort(all)
		out[strconv.Itoa(status)] = &huma.Response{Description: strings.Join(slices.Compact(all), ", "), Content: content}
	}
	return out
}

// write ends the description.
func (s *Server) write() error {
	doc := s.huma.OpenAPI()
	schemas := s.schemas().Map()
	delete(schemas, "ErrorModel") // huma's own, which nobody ever sees
	delete(schemas, "ErrorDetail")
	// Raw JSON has no schema of its own; these are objects.
	for name, fields := range map[string][]string{"PlaceCall": {"metadata"}, "Claim": {"metadata"}, "Call": {"metadata"}, "Number": {"metadata"}, "TimelineEntry": {"data"}} {
		for _, f := range fields {
			p := schemas[name].Properties[f]
			p.Type, p.AdditionalProperties = huma.TypeObject, true
			p.PrecomputeMessages()
		}
	}
	// Answers may grow; only requests are closed.
	for name, schema := range schemas {
		if !slices.Contains([]string{"PlaceCall", "Number", "Org", "Campaign", "Platform", "Claim", "Release", "Reason", "Flow", "Greeting", "Retry", "MediaKind"}, name) {
			schema.AdditionalProperties = true
		}
	}
	var err error
	if s.spec.v31, err = json.Marshal(doc); err != nil {
		return fmt.Errorf("OpenAPI: %w", err)
	}
	if s.spec.v30, err = doc.Downgrade(); err != nil {
		return fmt.Errorf("OpenAPI 3.0: %w", err)
	}
	return nil
}

// OpenAPI is the description of the API, version 3.1, indented for people.
func (s *Server) OpenAPI() ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, s.spec.v31, "", "  "); err != nil {
		return nil, fmt.Errorf("server: OpenAPI: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func serveBytes(kind string, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data)
	}
}
