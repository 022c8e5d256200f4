package settings

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"dibs/api"
	"dibs/call"
)

// File is what a file can set at the start.
type File struct {
	Numbers   []api.Number   `json:"numbers"`
	Orgs      []api.Org      `json:"orgs"`
	Campaigns []api.Campaign `json:"campaigns"`
	Platform  *api.Platform  `json:"platform"`
}

// Parse reads the file: YAML or JSON, an object with numbers, orgs, campaigns (lists)
// and platform, each of which may be left out. It is strict: unknown fields,
// anything twice and anything that cannot be used are errors that name the place.
// region stands in for numbers that name none.
func Parse(data []byte, region string) (File, error) {
	data, err := fromYAML(data)
	if err != nil {
		return File{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f File
	if err := dec.Decode(&f); err != nil {
		return File{}, fmt.Errorf("settings: %w", err)
	}
	seen := map[string]bool{}
	twice := func(key string) bool { was := seen[key]; seen[key] = true; return was }
	for i := range f.Numbers {
		n := &f.Numbers[i]
		if n.Region == "" {
			n.Region = region
		}
		if err := Check(*n); err != nil {
			return File{}, fmt.Errorf("settings: numbers[%d]: %w", i, err)
		}
		if twice(key(n.Number)) {
			return File{}, fmt.Errorf("settings: numbers[%d]: %s occurs twice", i, call.MaskNumber(n.Number))
		}
	}
	all := map[string]kept{keyPlatform: {Platform: &api.Platform{Cap: api.MaxCalls}}} // the sum is judged with the cap that holds, by Seed
	for _, e := range f.limits() {
		if err := e.kept.check(); err != nil {
			return File{}, fmt.Errorf("settings: %s: %w", e.place, err)
		}
		if twice(e.kept.key()) {
			return File{}, fmt.Errorf("settings: %s: it occurs twice", e.place)
		}
		if p := e.kept.Platform; p != nil && p.Cap == 0 {
			e.kept.Platform = &api.Platform{Cap: api.MaxCalls, Withhold: p.Withhold, Full: p.Full}
		}
		before := limitsOf(DefaultCap, all)
		all[e.kept.key()] = e.kept
		if err := limitsOf(DefaultCap, all).check(before, e.kept.key()); err != nil {
			return File{}, fmt.Errorf("settings: %s: %w", e.place, err)
		}
	}
	return f, nil
}

// placed is an entry and where it stands in the file.
type placed struct {
	kept  kept
	place string
}

// limits are the file's entries for admission, the platform last: by then all
// reserves are known.
func (f File) limits() (out []placed) {
	for i := range f.Orgs {
		out = append(out, placed{kept{Org: &f.Orgs[i]}, fmt.Sprintf("orgs[%d]", i)})
	}
	for i := range f.Campaigns {
		out = append(out, placed{kept{Campaign: &f.Campaigns[i]}, fmt.Sprintf("campaigns[%d]", i)})
	}
	if f.Platform != nil {
		out = append(out, placed{kept{Platform: f.Platform}, "platform"})
	}
	return out
}

// Seed puts what a file says, where the file says something else than the last
// time, and reports how many it put. Orgs, campaigns and platform are put when they
// are valid together with all that is there; else none of them is. Errors: an
// [*Invalid], [ErrUnavailable].
func (s *Store) Seed(ctx context.Context, f File) (put int, err error) {
	for _, n := range f.Numbers {
		hash, err := hashOf(n)
		if err != nil {
			return put, err
		}
		v, _, err := s.get(ctx, n.Number)
		switch {
		case errors.Is(err, ErrUnavailable):
			return put, err
		case err == nil && v.File == hash:
			continue
		}
		if err := s.put(ctx, stored{n, hash}); err != nil {
			return put, err
		}
		put++
	}
	for range tries {
		n, err := s.seedLimits(ctx, f.limits())
		put += n
		if !overtaken(err) {
			return put, err
		}
	}
	return put, fmt.Errorf("%w: too many change them at once", ErrUnavailable)
}

// seedLimits puts what is new in the file, all of it judged together.
func (s *Store) seedLimits(ctx context.Context, entries []placed) (put int, err error) {
	if len(entries) == 0 {
		return 0, nil
	}
	if err := s.Refresh(ctx); err != nil {
		return 0, err
	}
	s.mu.RLock()
	seen, all := s.seen, maps.Clone(s.kept)
	s.mu.RUnlock()
	before := limitsOf(s.cap, all)
	var todo []kept
	for _, e := range entries {
		k := e.kept
		if k.File, err = hashOf(e.kept); err != nil {
			return 0, err
		}
		if all[k.key()].File != k.File {
			todo = append(todo, k)
			all[k.key()] = k
		}
	}
	if err := limitsOf(s.cap, all).check(before, ""); err != nil {
		return 0, fmt.Errorf("settings: the file and what is stored: %w", err)
	}
	for _, k := range todo {
		at, err := s.publish(ctx, k.key(), &k, jetstream.WithExpectLastSequence(seen))
		switch {
		case overtaken(err):
			return put, err
		case err != nil:
			return put, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		seen = at
		put++
	}
	return put, nil
}

// hashOf is by what the file's next version is told from this one.
func hashOf(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("settings: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}
