package deploytest

import (
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// checker complains of manifests that Kubernetes takes and that would hang up on
// people, or not scale.
type checker struct {
	env        map[string]bool // that the bot reads
	complaints []string
}

func (c *checker) bad(format string, args ...any) {
	c.complaints = append(c.complaints, fmt.Sprintf(format, args...))
}

// must complains unless got is want.
func (c *checker) must(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		c.bad("%s: %v, want %v", what, got, want)
	}
}

func (c *checker) all(got objects) {
	if len(got.deployments) != 1 || len(got.budgets) != 1 || len(got.scaled) != 2 {
		c.bad("%d deployments, %d budgets, %d autoscalers; want 1, 1 and 2", len(got.deployments), len(got.budgets), len(got.scaled))
		return
	}
	d := got.deployments[0]
	c.deployment(d)
	names := slices.Sorted(maps.Keys(got.scaled))
	for _, name := range names {
		c.scaled(name, got.scaled[name], d, got.auths)
	}
	a, b := got.scaled[names[0]], got.scaled[names[1]]
	a.Spec.Triggers, b.Spec.Triggers = nil, nil
	if !reflect.DeepEqual(a, b) {
		c.bad("%s and %s differ in more than their triggers", names[0], names[1])
	}

	p := got.budgets[0]
	c.must("budget: maxUnavailable", p.Spec.MaxUnavailable, new(intstr.FromInt32(0)))
	c.must("budget: minAvailable", p.Spec.MinAvailable, (*intstr.IntOrString)(nil))
	c.must("budget: namespace", p.Namespace, d.Namespace)
	labels := maps.Clone(p.Spec.Selector.MatchLabels)
	c.must("budget: dibs.dev/state", labels["dibs.dev/state"], "busy")
	delete(labels, "dibs.dev/state")
	for k, v := range labels {
		c.must("budget: a pod's "+k, d.Spec.Template.Labels[k], v)
	}
	if len(labels) == 0 {
		c.bad("budget: selects everybody's pods")
	}
}

// deployment checks the bots'.
func (c *checker) deployment(d deployment) {
	if d.replicas {
		c.bad("deployment: replicas is set; an apply would set the pool to it")
	}
	s := d.Spec.Template.Spec
	c.must("deployment: rolling maxUnavailable", d.Spec.Strategy.RollingUpdate.MaxUnavailable, new(intstr.FromInt32(0)))
	for k, v := range d.Spec.Selector.MatchLabels {
		c.must("deployment: a pod's "+k, d.Spec.Template.Labels[k], v)
	}
	if len(s.Containers) != 1 {
		c.bad("deployment: %d containers, want 1", len(s.Containers))
		return
	}
	bot := s.Containers[0]
	value, from := map[string]string{}, map[string]string{}
	for _, e := range bot.Env {
		if !c.env[e.Name] {
			c.bad("deployment: the bot does not read %s", e.Name)
		}
		value[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			from[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	c.must("deployment: downward fields", from, map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "NODE_NAME": "spec.nodeName"})
	c.must("deployment: DIBS_REGION", value["DIBS_REGION"], d.Spec.Template.Labels["dibs.dev/region"])
	if !strings.HasPrefix(value["DIBS_MEDIA_URL"], "wss://") || value["DIBS_INSECURE"] != "" {
		c.bad("deployment: media goes to %q, want wss://", value["DIBS_MEDIA_URL"])
	}
	drain, err1 := time.ParseDuration(value["DIBS_DRAIN_TIMEOUT"])
	closing, err2 := time.ParseDuration(value["DIBS_CLOSE_TIMEOUT"])
	if err1 != nil || err2 != nil || s.TerminationGracePeriodSeconds == nil {
		c.bad("deployment: drain %q, close %q and the grace must be said", value["DIBS_DRAIN_TIMEOUT"], value["DIBS_CLOSE_TIMEOUT"])
	} else if grace := time.Duration(*s.TerminationGracePeriodSeconds) * time.Second; grace < drain+closing+30*time.Second {
		c.bad("deployment: grace %v, want drain %v, close %v and 30s more", grace, drain, closing)
	}
	if bot.Lifecycle != nil {
		c.bad("deployment: a hook uses up the time that calls have")
	}
	ports := map[string]int32{}
	for _, p := range bot.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for port, env := range map[string]string{"media": "DIBS_MEDIA_ADDR", "ops": "DIBS_OPS_ADDR"} {
		host, number, err := net.SplitHostPort(value[env])
		if err != nil || host != "" || number != fmt.Sprint(ports[port]) {
			c.bad("deployment: %s is %q, want :%d", env, value[env], ports[port])
		}
	}
	for path, probe := range map[string]*corev1.Probe{"/readyz": bot.ReadinessProbe, "/livez": bot.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port != intstr.FromString("ops") {
			c.bad("deployment: no probe of %s on port ops", path)
		}
	}
}

// behavior is how fast the pool may change.
func behavior() autoscalingv2.HorizontalPodAutoscalerBehavior {
	rules := func(window int32, sel autoscalingv2.ScalingPolicySelect, percent, pods, period int32) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &window, SelectPolicy: &sel,
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PercentScalingPolicy, Value: percent, PeriodSeconds: period},
				{Type: autoscalingv2.PodsScalingPolicy, Value: pods, PeriodSeconds: period},
			},
		}
	}
	return autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp:   rules(0, autoscalingv2.MaxChangePolicySelect, 100, 10, 15),
		ScaleDown: rules(180, autoscalingv2.MinChangePolicySelect, 25, 5, 60),
	}
}

// query is what Prometheus is asked; demand_test.yaml tests it.
func query(region string) string {
	return fmt.Sprintf(`sum(max by (term) (dibs_demand_units{region=%q}))`, region)
}

func (c *checker) scaled(name string, o scaledObject, d deployment, auths []authentication) {
	s, region := o.Spec, d.Labels["dibs.dev/region"]
	c.must(name+": target", s.ScaleTargetRef, autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: d.Name, APIVersion: "apps/v1"})
	c.must(name+": namespace", o.Namespace, d.Namespace)
	c.must(name+": region", o.Labels["dibs.dev/region"], region)
	c.must(name+": replicas", [2]int{s.MinReplicaCount, s.MaxReplicaCount}, [2]int{3, 50})
	c.must(name+": idleReplicaCount", s.IdleReplicas, (*int)(nil))
	c.must(name+": fallback", s.Fallback, fallback{3, 10, "currentReplicasIfHigher"})
	c.must(name+": restoreToOriginalReplicaCount", s.Advanced.Restore, new(false))
	for direction, rules := range map[string][2]*autoscalingv2.HPAScalingRules{
		"scaleUp":   {s.Advanced.HPA.Behavior.ScaleUp, behavior().ScaleUp},
		"scaleDown": {s.Advanced.HPA.Behavior.ScaleDown, behavior().ScaleDown},
	} {
		if !reflect.DeepEqual(rules[0], rules[1]) {
			c.bad("%s: %s is not as it must be", name, direction)
		}
	}
	if len(s.Triggers) != 1 {
		c.bad("%s: %d triggers; the HPA takes the largest of several", name, len(s.Triggers))
		return
	}
	tr := s.Triggers[0]
	c.must(name+": metricType", tr.MetricType, "AverageValue")
	c.must(name+": useCachedMetrics", tr.UseCachedMetrics, false)
	switch tr.Type {
	case "prometheus":
		c.must(name+": query", tr.Metadata["query"], query(region))
		c.must(name+": threshold", tr.Metadata["threshold"], "0.7")
		c.must(name+": ignoreNullValues", tr.Metadata["ignoreNullValues"], "false")
	case "metrics-api":
		if !strings.HasSuffix(tr.Metadata["url"], "/v1/scale/"+region+"/value") {
			c.bad("%s: url %s is not this region's", name, tr.Metadata["url"])
		}
		c.must(name+": valueLocation", tr.Metadata["valueLocation"], "value")
		c.must(name+": targetValue", tr.Metadata["targetValue"], "0.7")
		c.authentication(name, o, auths)
	default:
		c.bad("%s: trigger %s", name, tr.Type)
	}
}

// authentication: the API needs a token, and it stands in a secret.
func (c *checker) authentication(name string, o scaledObject, auths []authentication) {
	tr := o.Spec.Triggers[0]
	c.must(name+": authMode", tr.Metadata["authMode"], "bearer")
	for _, a := range auths {
		if tr.AuthenticationRef == nil || a.Name != tr.AuthenticationRef.Name || a.Namespace != o.Namespace {
			continue
		}
		if len(a.Spec.SecretTargetRef) == 1 && a.Spec.SecretTargetRef[0].Parameter == "token" {
			return
		}
	}
	c.bad("%s: no TriggerAuthentication in the set gives it its token", name)
}

func TestManifests(t *testing.T) {
	got, complaints := newDecoder(t).decode(files(t))
	c := checker{env: environment(t), complaints: complaints}
	c.all(got)
	for _, complaint := range c.complaints {
		t.Error(complaint)
	}
}

// Each planted mistake is one that Kubernetes or KEDA would take, or drop, without
// a word, or one that has cost somebody calls.
func TestManifestsCatches(t *testing.T) {
	decode, env, good := newDecoder(t), environment(t), files(t)
	for name, tt := range map[string]struct{ file, old, new, want string }{
		"a misspelt key of a trigger":  {"scaledobject.yaml", "ignoreNullValues:", "ignoreNullValue:", `prometheus has no "ignoreNullValue"`},
		"empty is 0":                   {"scaledobject.yaml", `ignoreNullValues: "false"`, `ignoreNullValues: "true"`, "ignoreNullValues: true, want false"},
		"empty is 0, by the query":     {"scaledobject.yaml", `{region="eu-west"}))`, `{region="eu-west"})) or vector(0)`, "query: "},
		"replicas double":              {"scaledobject.yaml", "sum(max by (term) (dibs_demand_units{region=\"eu-west\"}))", "sum(dibs_demand_units{region=\"eu-west\"})", "query: "},
		"another region's":             {"scaledobject.yaml", `{region="eu-west"}`, `{region="us-east"}`, "query: "},
		"a number that must be text":   {"scaledobject.yaml", `threshold: "0.7"`, "threshold: 0.7", "threshold: number, want string"},
		"no threshold":                 {"scaledobject.yaml", `threshold: "0.7"`, "", "threshold is missing"},
		"another threshold":            {"scaledobject.yaml", `threshold: "0.7"`, `threshold: "7"`, "threshold: 7, want 0.7"},
		"no such selection":            {"scaledobject.yaml", "selectPolicy: Min", "selectPolicy: Least", "scaleDown is not as it must be"},
		"the larger cut":               {"scaledobject.yaml", "          selectPolicy: Min\n", "", "scaleDown is not as it must be"},
		"no time to think":             {"scaledobject.yaml", "stabilizationWindowSeconds: 180", "stabilizationWindowSeconds: 0", "scaleDown is not as it must be"},
		"slow to rise":                 {"scaledobject.yaml", "stabilizationWindowSeconds: 0", "stabilizationWindowSeconds: 60", "scaleUp is not as it must be"},
		"a fallback that shrinks":      {"scaledobject.yaml", "behavior: currentReplicasIfHigher", "behavior: static", "fallback: "},
		"no such fallback":             {"scaledobject.yaml", "behavior: currentReplicasIfHigher", "behavior: currentReplicasIfMore", ".spec.fallback.behavior: currentReplicasIfMore, want one of"},
		"a floor above the ceiling":    {"scaledobject.yaml", "minReplicaCount: 3", "minReplicaCount: 51", "replicas: [51 50]"},
		"pods that leave are counted":  {"scaledobject.yaml", "metricType: AverageValue", "metricType: Value", "metricType: Value"},
		"no pace at all":               {"scaledobject.yaml", "pollingInterval: 5", "pollingInterval: 0", ".spec.pollingInterval: 0, want at least 1"},
		"a field that is not there":    {"scaledobject.yaml", "  minReplicaCount", "  minReplicas: 3\n  minReplicaCount", `unknown field "minReplicas"`},
		"a field twice":                {"scaledobject.yaml", "  minReplicaCount: 3", "  minReplicaCount: 3\n  minReplicaCount: 4", `key "minReplicaCount" already set`},
		"metadata that is not there":   {"scaledobject.yaml", "  namespace: dibs", "  namespace: dibs\n  label: {}", `unknown field "label"`},
		"deleting scales":              {"scaledobject.yaml", "restoreToOriginalReplicaCount: false", "restoreToOriginalReplicaCount: true", "restoreToOriginalReplicaCount"},
		"no label of the region":       {"scaledobject.yaml", "labels: {dibs.dev/region: eu-west}", "labels: {}", "region: , want eu-west"},
		"another deployment":           {"scaledobject.yaml", "kind: Deployment, name: dibs-bots-eu-west", "kind: Deployment, name: dibs-bots", "target: "},
		"two that differ":              {"scaledobject-metrics-api.yaml", "pollingInterval: 5", "pollingInterval: 6", "differ in more than their triggers"},
		"another region's value":       {"scaledobject-metrics-api.yaml", "/eu-west/value", "/us-east/value", "is not this region's"},
		"wanted bots, not demand":      {"scaledobject-metrics-api.yaml", "valueLocation: value", "valueLocation: wanted", "valueLocation: wanted"},
		"no such way to prove oneself": {"scaledobject-metrics-api.yaml", "authMode: bearer", "authMode: token", `authMode: "token", want one of`},
		"nobody gives the token":       {"triggerauthentication.yaml", "name: dibs-scale\n", "name: dibs-scales\n", "no TriggerAuthentication in the set"},
		"the secret's key":             {"triggerauthentication.yaml", ", key: token", "", "key is missing"},
		"replicas in the manifest":     {"bots.yaml", "  revisionHistoryLimit: 3", "  replicas: 3", "replicas is set"},
		"grace without a unit":         {"bots.yaml", "terminationGracePeriodSeconds", "terminationGracePeriod", `unknown field "terminationGracePeriod"`},
		"a grace below the drain":      {"bots.yaml", "terminationGracePeriodSeconds: 720", "terminationGracePeriodSeconds: 600", "grace 10m0s, want drain 10m0s"},
		"a longer drain":               {"bots.yaml", "value: 10m", "value: 1h", "want drain 1h0m0s"},
		"a hook":                       {"bots.yaml", "          resources:", "          lifecycle: {preStop: {sleep: {seconds: 600}}}\n          resources:", "a hook uses up"},
		"ready means idle":             {"bots.yaml", "path: /readyz", "path: /idle", "no probe of /readyz"},
		"the wrong port":               {"bots.yaml", "path: /livez, port: ops", "path: /livez, port: media", "no probe of /livez on port ops"},
		"a loopback address":           {"bots.yaml", `value: ":9850"`, `value: 127.0.0.1:9850`, "DIBS_OPS_ADDR"},
		"a variable nobody reads":      {"bots.yaml", "DIBS_SEATS", "DIBS_SEAT", "the bot does not read DIBS_SEAT"},
		"the wrong field":              {"bots.yaml", "fieldPath: spec.nodeName", "fieldPath: status.hostIP", "downward fields"},
		"plain media":                  {"bots.yaml", "wss://", "ws://", "want wss://"},
		"bots before their successors": {"bots.yaml", "maxUnavailable: 0,", "maxUnavailable: 1,", "rolling maxUnavailable"},
		"a region by two names":        {"bots.yaml", "DIBS_REGION, value: eu-west", "DIBS_REGION, value: eu", "DIBS_REGION: eu, want eu-west"},
		"a budget for one":             {"pdb.yaml", "maxUnavailable: 0", "maxUnavailable: 1", "budget: maxUnavailable"},
		"a budget for idle ones":       {"pdb.yaml", "dibs.dev/state: busy", "dibs.dev/state: idle", "budget: dibs.dev/state"},
		"a budget for nobody":          {"pdb.yaml", "name: dibs-bot\n", "name: dibs-bots\n", "a pod's app.kubernetes.io/name"},
		"an old version":               {"pdb.yaml", "policy/v1", "policy/v1beta1", "is no kind that is checked"},
	} {
		t.Run(name, func(t *testing.T) {
			planted := maps.Clone(good)
			planted[tt.file] = strings.Replace(good[tt.file], tt.old, tt.new, 1)
			if planted[tt.file] == good[tt.file] {
				t.Fatalf("%q is not in %s", tt.old, tt.file)
			}
			got, complaints := decode.decode(planted)
			c := checker{env: env, complaints: complaints}
			c.all(got)
			if !strings.Contains(strings.Join(c.complaints, "\n"), tt.want) {
				t.Errorf("complaints %q, want one that says %q", c.complaints, tt.want)
			}
		})
	}
}
