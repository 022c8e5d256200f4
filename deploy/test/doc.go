// Package deploytest checks the manifests and rules of deploy/ without a cluster:
// strict decoding with the types of Kubernetes and the schema of KEDA's own
// definition, what the numbers must be, planted mistakes that must be caught, and
// promtool over the rules.
//
// It is a module of its own, so that the product's go.mod stays small:
//
//	cd deploy/test && go test .
//
// Once its modules are there it needs no network. promtool comes with Debian's
// package prometheus; without it those tests are skipped, unless DIBS_PROMTOOL=1.
package deploytest
