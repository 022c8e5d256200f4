package dibs_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// longest is how many lines a file may have: what is longer is two things.
const longest = 400

// packageComments complains of packages that do not say what they are.
func packageComments(got tree) (complaints []string) {
	said := map[string]bool{}
	var order []string
	for _, f := range got.files {
		if f.test {
			continue
		}
		if _, ok := said[f.pkg]; !ok {
			order = append(order, f.pkg)
		}
		name := f.ast.Name.Name
		text := f.ast.Doc.Text()
		said[f.pkg] = said[f.pkg] || strings.HasPrefix(text, "Package "+name+" ") || name == "main" && len(text) > 0
	}
	for _, pkg := range order {
		if !said[pkg] {
			complaints = append(complaints, pkg+": no package comment (\"Package … is …\"; a command: any)")
		}
	}
	return complaints
}

// lengths complains of long files, in Go and in the languages of the examples.
func lengths(got tree) (complaints []string) {
	say := func(name string, lines int) {
		if lines > longest {
			complaints = append(complaints, fmt.Sprintf("%s: %d lines, at most %d", name, lines, longest))
		}
	}
	for _, f := range got.files {
		say(f.name, f.lines)
	}
	_ = fs.WalkDir(got.plain, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && skipped(got.plain, name) {
			return fs.SkipDir
		}
		if !slices.Contains([]string{".mjs", ".js", ".py", ".sh"}, path.Ext(name)) {
			return nil
		}
		src, err := fs.ReadFile(got.plain, name)
		say(name, strings.Count(string(src), "\n"))
		return err
	})
	return complaints
}

// contexts complains of contexts that are kept in a struct.
func contexts(got tree) (complaints []string) {
	for _, f := range got.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				if selector(field.Type) == "context.Context" {
					complaints = append(complaints, f.at(field)+": a context in a struct; hand it to the method")
				}
			}
			return true
		})
	}
	return complaints
}

// inits complains of code that runs because it is linked.
func inits(got tree) (complaints []string) {
	for _, f := range got.files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				complaints = append(complaints, f.at(fn)+": func init; do it where it is needed")
			}
		}
	}
	return complaints
}

// selector is "pkg.Name" or "Name" of an expression, empty for others.
func selector(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
	}
	return ""
}

func TestPackageComments(t *testing.T) { holds(t, packageComments) }
func TestLengths(t *testing.T)         { holds(t, lengths) }
func TestContexts(t *testing.T)        { holds(t, contexts) }
func TestInits(t *testing.T)           { holds(t, inits) }

func TestPackageCommentsCatches(t *testing.T) {
	catches(t, packageComments, []planted{
		{"in one of two files", map[string]string{"a/a.go": "package a", "a/doc.go": "// Package a is small.\npackage a"}, nil},
		{"a command", map[string]string{"cmd/x/main.go": "// Command x does it.\npackage main"}, nil},
		{"tests need none", map[string]string{"a/a_test.go": "package a_test"}, nil},
		{"none", map[string]string{"a/a.go": "package a"}, []string{"a: no package comment"}},
		{"of another name", map[string]string{"a/a.go": "// Package b is old.\npackage a"}, []string{"a: no package comment"}},
		{"not beside the clause", map[string]string{"a/a.go": "// Package a is small.\n\npackage a"}, []string{"a: no package comment"}},
	})
}

func TestLengthsCatches(t *testing.T) {
	catches(t, lengths, []planted{
		{"just long enough", map[string]string{"a/a.go": "package a\n" + strings.Repeat("\n", longest-1)}, nil},
		{"one line more", map[string]string{"a/a.go": "package a\n" + strings.Repeat("\n", longest)}, []string{"a/a.go: 401 lines"}},
		{"a test", map[string]string{"a/a_test.go": "package a\n" + strings.Repeat("\n", longest)}, []string{"a/a_test.go: 401 lines"}},
		{"an example", map[string]string{"examples/x/bot.mjs": strings.Repeat("\n", longest+1)}, []string{"bot.mjs: 401 lines"}},
		{"somebody else's", map[string]string{"examples/x/node_modules/y/z.js": strings.Repeat("\n", longest+1)}, nil},
	})
}

func TestContextsCatches(t *testing.T) {
	catches(t, contexts, []planted{
		{"as an argument", map[string]string{"a/a.go": "package a\nfunc f(ctx context.Context) {}\ntype g struct { f func(context.Context) }"}, nil},
		{"as a field", map[string]string{"a/a.go": "package a\ntype f struct { ctx context.Context }"}, []string{"a/a.go:2:"}},
		{"embedded", map[string]string{"a/a.go": "package a\ntype f struct { context.Context }"}, []string{"a/a.go:2:"}},
		{"inside a function", map[string]string{"a/a.go": "package a\nfunc f() { _ = struct{ c context.Context }{} }"}, []string{"a/a.go:2:"}},
	})
}

func TestInitsCatches(t *testing.T) {
	catches(t, inits, []planted{
		{"a method of that name", map[string]string{"a/a.go": "package a\nfunc (x T) init() {}"}, nil},
		{"an init", map[string]string{"a/a.go": "package a\nfunc init() {}"}, []string{"a/a.go:2:"}},
		{"in a test", map[string]string{"a/a_test.go": "package a\nfunc init() {}"}, []string{"a/a_test.go:2:"}},
	})
}
