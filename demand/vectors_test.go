package demand

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The schema stands in the file.
type vectors struct {
	Wanted []struct {
		Name   string `json:"name"`
		Config Config `json:"config"`
		Input  Input  `json:"input"`
		Want   Wanted `json:"want"`
		Error  string `json:"error"`
	} `json:"wanted"`
	HPA []struct {
		Name   string    `json:"name"`
		Config hpaVector `json:"config"`
		Every  int       `json:"every_s"`
		Start  int       `json:"start"`
		Looks  []struct {
			Restart bool  `json:"restart"`
			Value   *int  `json:"value"`
			Times   int   `json:"times"`
			Pods    []int `json:"pods"`
		} `json:"looks"`
	} `json:"hpa"`
}

type hpaVector struct {
	Min       int         `json:"min"`
	Max       int         `json:"max"`
	PerBot    Ratio       `json:"per_bot"`
	Tolerance *Ratio      `json:"tolerance"`
	Up        rulesVector `json:"up"`
	Down      rulesVector `json:"down"`
}

type rulesVector struct {
	Policies []struct {
		Percent bool `json:"percent"`
		Value   int  `json:"value"`
		Period  int  `json:"period_s"`
	} `json:"policies"`
	Select Select `json:"select"`
	Window int    `json:"window_s"`
}

func (v rulesVector) rules() Rules {
	r := Rules{Select: v.Select, Window: time.Duration(v.Window) * time.Second}
	for _, p := range v.Policies {
		r.Policies = append(r.Policies, Rule{Percent: p.Percent, Value: p.Value, Period: time.Duration(p.Period) * time.Second})
	}
	return r
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	dir := os.Getenv("DIBS_VECTORS")
	if dir == "" {
		dir = filepath.Join("..", "testdata")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "demand.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Wanted) == 0 || len(v.HPA) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

func TestVectors(t *testing.T) {
	all := readVectors(t)
	for _, v := range all.Wanted {
		t.Run("wanted/"+v.Name, func(t *testing.T) {
			got, err := Compute(v.Config, v.Input)
			if v.Error != "" {
				if err == nil || !strings.Contains(err.Error(), v.Error) {
					t.Fatalf("got %+v, error %v, want an error with %q", got, err, v.Error)
				}
				if got.Bots != 0 || errors.Is(err, ErrUnknown) != strings.HasSuffix(v.Error, "unknown") {
					t.Fatalf("got %+v, error %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			said := cmpopts.IgnoreFields(Wanted{}, "Terms", "Policy", "PerBot", "Floor", "Ceiling", "Sentence")
			if diff := cmp.Diff(v.Want, got, said); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for _, v := range all.HPA {
		t.Run("hpa/"+v.Name, func(t *testing.T) {
			fresh := func() *HPA {
				h, err := NewHPA(HPAConfig{
					Min: v.Config.Min, Max: v.Config.Max, PerBot: v.Config.PerBot, Tolerance: v.Config.Tolerance,
					Up: v.Config.Up.rules(), Down: v.Config.Down.rules(),
				})
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			h, now, pods := fresh(), time.Unix(0, 0), v.Start
			for i, l := range v.Looks {
				if l.Restart {
					h = fresh()
				}
				for range max(1, l.Times) {
					for j, want := range l.Pods {
						if pods = h.Sync(now, pods, l.Value); pods != want {
							t.Fatalf("look %d.%d at %v: %d pods, want %d", i, j, now.Sub(time.Unix(0, 0)), pods, want)
						}
						now = now.Add(time.Duration(v.Every) * time.Second)
					}
				}
			}
		})
	}
}
