package deploytest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// files are the manifests, by name.
func files(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../keda/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	all := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(name)] = string(data)
	}
	return all
}

// objects is everything in the manifests, decoded.
type objects struct {
	scaled      map[string]scaledObject // file → object
	auths       []authentication
	deployments []deployment
	budgets     []policyv1.PodDisruptionBudget
}

type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              scaledSpec `json:"spec"`
}

// scaledSpec is what the checks read; the definition has held the rest.
type scaledSpec struct {
	ScaleTargetRef  autoscalingv2.CrossVersionObjectReference `json:"scaleTargetRef"`
	MinReplicaCount int                                       `json:"minReplicaCount"`
	MaxReplicaCount int                                       `json:"maxReplicaCount"`
	PollingInterval int                                       `json:"pollingInterval"`
	IdleReplicas    *int                                      `json:"idleReplicaCount"`
	Fallback        fallback                                  `json:"fallback"`
	Advanced        struct {
		Restore *bool `json:"restoreToOriginalReplicaCount"`
		HPA     struct {
			Name     string                                        `json:"name"`
			Behavior autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
		} `json:"horizontalPodAutoscalerConfig"`
	} `json:"advanced"`
	Triggers []trigger `json:"triggers"`
}

type fallback struct {
	FailureThreshold int    `json:"failureThreshold"`
	Replicas         int    `json:"replicas"`
	Behavior         string `json:"behavior"`
}

type trigger struct {
	Type              string            `json:"type"`
	Name              string            `json:"name"`
	MetricType        string            `json:"metricType"`
	UseCachedMetrics  bool              `json:"useCachedMetrics"`
	Metadata          map[string]string `json:"metadata"`
	AuthenticationRef *struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"authenticationRef"`
}

type authentication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretTargetRef []struct{ Parameter, Name, Key string } `json:"secretTargetRef"`
	} `json:"spec"`
}

// deployment is one, and whether it says how many pods there are.
type deployment struct {
	appsv1.Deployment
	replicas bool
}

// decoder has what KEDA's module says.
type decoder struct {
	kinds    map[string]schema // kind → definition
	triggers map[string]scaler
}

func newDecoder(t *testing.T) decoder {
	t.Helper()
	return decoder{
		kinds:    map[string]schema{"ScaledObject": definition(t, "scaledobjects"), "TriggerAuthentication": definition(t, "triggerauthentications")},
		triggers: scalers(t),
	}
}

var separator = regexp.MustCompile(`(?m)^---\n`)

// decode reads all files. It complains of everything that a cluster would refuse,
// and of what it would silently drop.
func (d decoder) decode(files map[string]string) (got objects, complaints []string) {
	got.scaled = map[string]scaledObject{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		bad := func(format string, args ...any) {
			complaints = append(complaints, name+": "+fmt.Sprintf(format, args...))
		}
		for _, text := range separator.Split(files[name], -1) {
			var raw map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &raw); err != nil {
				bad("%v", err)
				continue
			}
			var into any
			deploy, budget, scaled, auth := &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}, &scaledObject{}, &authentication{}
			strict := yaml.UnmarshalStrict
			switch id := fmt.Sprintf("%v %v", raw["apiVersion"], raw["kind"]); id {
			case "apps/v1 Deployment":
				into = deploy
			case "policy/v1 PodDisruptionBudget":
				into = budget
			case "keda.sh/v1alpha1 ScaledObject":
				into = scaled
			case "keda.sh/v1alpha1 TriggerAuthentication":
				into = auth
			default:
				bad("%s is no kind that is checked", id)
				continue
			}
			if def, ours := d.kinds[fmt.Sprint(raw["kind"])]; ours {
				for _, c := range def.check("", map[string]any{"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": map[string]any{}, "spec": raw["spec"]}) {
					bad("%s", c)
				}
				strict = yaml.Unmarshal // our types have only the fields that are read
				var meta struct {
					metav1.ObjectMeta `json:"metadata"`
				}
				object, _ := yaml.Marshal(map[string]any{"metadata": raw["metadata"]})
				if err := yaml.UnmarshalStrict(object, &meta); err != nil {
					bad("%v", err)
				}
			}
			if err := strict([]byte(text), into); err != nil {
				bad("%v", err)
				continue
			}
			switch raw["kind"] {
			case "Deployment":
				_, has := raw["spec"].(map[string]any)["replicas"]
				got.deployments = append(got.deployments, deployment{*deploy, has})
			case "PodDisruptionBudget":
				got.budgets = append(got.budgets, *budget)
			case "TriggerAuthentication":
				got.auths = append(got.auths, *auth)
			case "ScaledObject":
				got.scaled[name] = *scaled
				for _, tr := range scaled.Spec.Triggers {
					known, ok := d.triggers[tr.Type]
					if !ok {
						bad("KEDA has no trigger %q", tr.Type)
					}
					for _, c := range known.check(tr.Metadata) {
						bad("trigger %s: %s", tr.Type, c)
					}
				}
			}
		}
	}
	return got, complaints
}

var envTag = regexp.MustCompile(`env:"([A-Z_]+)"`)

// environment are the variables that the bot reads, from its sources.
func environment(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, name := range []string{"bot/command.go", "internal/connect/*.go", "internal/program/*.go"} {
		sources, err := filepath.Glob(filepath.Join("../..", name))
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: no sources: %v", name, err)
		}
		for _, source := range sources {
			data, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range envTag.FindAllStringSubmatch(string(data), -1) {
				known[m[1]] = true
			}
		}
	}
	if !known["DIBS_REGION"] || !known["NATS_URL"] || !known["DIBS_LOG_LEVEL"] {
		t.Fatalf("the sources say %v", slices.Sorted(maps.Keys(known)))
	}
	return known
}
