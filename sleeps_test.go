package dibs_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// sleeps complains of tests that sleep in real time. Inside a bubble of fake
// time a sleep costs nothing, so what matters is how a sleep is reached: from a
// test's own body, or only through a bubble.
func sleeps(got tree) (complaints []string) {
	byPkg := map[string]*sleepers{}
	var order []string
	for _, f := range got.files {
		if !f.test {
			continue
		}
		s := byPkg[f.pkg]
		if s == nil {
			s = &sleepers{funcs: map[string][]*body{}, bubbles: []string{"natstest.Bubble", "synctest.Test"}, seen: map[*body]bool{}}
			byPkg[f.pkg] = s
			order = append(order, f.pkg)
		}
		s.add(f)
	}
	for _, pkg := range order {
		complaints = append(complaints, byPkg[pkg].walk()...)
	}
	return complaints
}

// sleepers are the functions of one package's tests.
type sleepers struct {
	funcs   map[string][]*body // name, also of methods → who bears it
	roots   []*body            // what runs in real time: tests, benchmarks, variables
	bubbles []string           // the functions that run their argument in a bubble
	seen    map[*body]bool
	found   []string
}

// body is a declaration and the file that it stands in.
type body struct {
	file file
	node ast.Node
	has  bool // a bubble begins in it
}

func (s *sleepers) add(f file) {
	for _, decl := range f.ast.Decls {
		b := &body{file: f, node: decl}
		ast.Inspect(decl, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			b.has = b.has || ok && slices.Contains(s.bubbles, selector(call.Fun))
			return true
		})
		fn, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok:
			s.roots = append(s.roots, b)
		case slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(p string) bool { return strings.HasPrefix(fn.Name.Name, p) }):
			s.roots = append(s.roots, b)
		case b.has: // a helper that wraps the bubble
			s.bubbles = append(s.bubbles, fn.Name.Name)
		default:
			s.funcs[fn.Name.Name] = append(s.funcs[fn.Name.Name], b)
		}
	}
}

func (s *sleepers) walk() []string {
	for _, b := range s.roots {
		s.visit(b)
	}
	return s.found
}

// visit follows what b runs outside of bubbles.
func (s *sleepers) visit(b *body) {
	if s.seen[b] {
		return
	}
	s.seen[b] = true
	ast.Inspect(b.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if b.has { // a table whose functions are called in the bubble below it
				return false
			}
		case *ast.CallExpr:
			if slices.Contains(s.bubbles, selector(n.Fun)) {
				return false
			}
			if selector(n.Fun) == "time.Sleep" {
				s.found = append(s.found, b.file.at(n)+": a test sleeps in real time; wait for what it waits for, or use a bubble")
			}
		case *ast.Ident:
			for _, next := range s.funcs[n.Name] {
				s.visit(next)
			}
		}
		return true
	})
}

func TestSleeps(t *testing.T) { holds(t, sleeps) }

func TestSleepsCatches(t *testing.T) {
	test := func(src string) map[string]string {
		return map[string]string{"a/a_test.go": "package a\nimport \"time\"\n" + src}
	}
	catches(t, sleeps, []planted{
		{"in a bubble", test("func TestA() { natstest.Bubble(t, func() { go func() { time.Sleep(1) }() }) }"), nil},
		{"in the library's bubble", test("func TestA() { synctest.Test(t, func() { time.Sleep(1) }) }"), nil},
		{"in a helper of a bubble", test("func TestA() { synctest.Test(t, func() { b.settle() }) }\nfunc (b *B) settle() { wait() }\nfunc wait() { time.Sleep(1) }"), nil},
		{"in a wrapped bubble", test("func in(f func()) { synctest.Test(t, f) }\nfunc TestA() { in(func() { time.Sleep(1) }) }"), nil},
		{"in the table of a bubble", test("func TestA() { for _, f := range []func(){func() { time.Sleep(1) }} { synctest.Test(t, f) } }"), nil},
		{"not in a test", map[string]string{"a/a.go": "package a\nfunc f() { time.Sleep(1) }"}, nil},
		{"in a test", test("func TestA() { if true { time.Sleep(1) } }"), []string{"a/a_test.go:3:"}},
		{"beside a bubble", test("func TestA() { natstest.Bubble(t, f); time.Sleep(1) }"), []string{"a/a_test.go:3:"}},
		{"in a helper of a test", test("func TestA() { b.settle() }\nfunc (b *B) settle() { wait() }\nfunc wait() { time.Sleep(1) }"), []string{"a/a_test.go:5:"}},
		{"in a helper of both", test("func TestA() { wait() }\nfunc TestB() { synctest.Test(t, wait) }\nfunc wait() { time.Sleep(1) }"), []string{"a/a_test.go:5:"}},
		{"in a table without a bubble", test("func TestA() { for _, f := range []func(){func() { time.Sleep(1) }} { f() } }"), []string{"a/a_test.go:3:"}},
		{"in a variable", test("var f = func() { time.Sleep(1) }"), []string{"a/a_test.go:3:"}},
	})
}
