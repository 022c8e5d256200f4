package dibs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// These tests guard what a compiler does not: who may import whom, and the
// habits of CONTRIBUTING.md. Each guard is a function from a tree to its
// complaints, so each has a test in which it is shown a violation.

// tree is the source of the module, or a planted one.
type tree struct {
	files []file // every Go file, by path
	plain fs.FS
}

// file is one parsed Go file.
type file struct {
	name  string // path from the root, with slashes
	pkg   string // its folder; "." is the root
	test  bool
	lines int
	src   string
	ast   *ast.File
	fset  *token.FileSet
}

// at says where a node is.
func (f file) at(n ast.Node) string {
	return f.fset.Position(n.Pos()).String()
}

// read parses every Go file of fsys that belongs to this module.
func read(t *testing.T, fsys fs.FS) tree {
	t.Helper()
	got := tree{plain: fsys}
	fset := token.NewFileSet()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		got.files = append(got.files, file{
			name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			lines: strings.Count(string(src), "\n"), src: string(src), ast: parsed, fset: fset,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// skipped are the folders that are not this module's source.
func skipped(fsys fs.FS, dir string) bool {
	base := path.Base(dir)
	if dir == "." {
		return false
	}
	if base[0] == '.' || base[0] == '_' || slices.Contains([]string{"bin", "testdata", "node_modules"}, base) {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil // a module of its own
}

// module is the real tree, parsed once for each test that asks: it takes a
// fraction of a second.
func module(t *testing.T) tree {
	t.Helper()
	return read(t, os.DirFS("."))
}

// plant makes a tree of the given files.
func plant(t *testing.T, files map[string]string) tree {
	t.Helper()
	m := fstest.MapFS{}
	for name, src := range files {
		m[name] = &fstest.MapFile{Data: []byte(src)}
	}
	return read(t, m)
}

// holds fails the test with every complaint that the guard has of the module.
func holds(t *testing.T, guard func(tree) []string) {
	t.Helper()
	for _, c := range guard(module(t)) {
		t.Error(c)
	}
}

// planted is one small tree and what a guard must say of it.
type planted struct {
	name  string
	files map[string]string
	want  []string // one part of each complaint, in order; none: it is fine
}

// catches shows a guard planted trees.
func catches(t *testing.T, guard func(tree) []string, tests []planted) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := guard(plant(t, tt.files))
			if len(got) != len(tt.want) {
				t.Fatalf("complaints %q, want %d", got, len(tt.want))
			}
			for i, c := range got {
				if !strings.Contains(c, tt.want[i]) {
					t.Errorf("complaint %q, want it to say %q", c, tt.want[i])
				}
			}
		})
	}
}

func TestWhatIsRead(t *testing.T) {
	got := plant(t, map[string]string{
		"a/a.go": "package a", "a/testdata/x.go": "not Go", "_old/x.go": "not Go", ".hidden/x.go": "not Go", "bin/x.go": "not Go",
		"tools/go.mod": "module tools", "tools/x.go": "not Go", "examples/node/node_modules/x/x.go": "not Go",
	})
	if len(got.files) != 1 || got.files[0].pkg != "a" {
		t.Errorf("read %+v, want only a/a.go", got.files)
	}
	if n := len(module(t).files); n < 10 {
		t.Errorf("the module has %d Go files; this guards nothing", n)
	}
}
