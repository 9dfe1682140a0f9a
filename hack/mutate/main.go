// Command mutate changes one condition or statement of internal/release at a time,
// runs the package's tests on the changed code, and lists the changes that no test
// noticed. The work tree stays as it is: the changed file is an overlay of the
// build. A run takes about three seconds for each change.
//
//	go run ./hack/mutate [-file run.go] [-run regexp] [-skip regexp] [-jobs 2]
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// mutant is one change: apply does it, revert takes it back.
type mutant struct {
	at            token.Position
	what          string
	apply, revert func()
	source        []byte
}

func main() {
	dir := flag.String("dir", "internal/release", "package to change")
	only := flag.String("file", "", "change this file only")
	run := flag.String("run", "", "tests that are to notice; default: all")
	skip := flag.String("skip", "TestEveryRuleIsNeeded|TestHistoriesSurviveCrashes|TestImports", "tests that are left out, the slow ones")
	jobs := flag.Int("jobs", 2, "tests at the same time")
	flag.Parse()
	files, err := filepath.Glob(filepath.Join(*dir, "*.go"))
	if err != nil {
		fail(err)
	}
	var all []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || *only != "" && filepath.Base(file) != *only {
			continue
		}
		found, err := mutants(file)
		if err != nil {
			fail(err)
		}
		all = append(all, found...)
	}
	killed, survived, invalid := test(*dir, *run, *skip, all, *jobs)
	fmt.Printf("%d changes: %d noticed, %d not, %d that do not compile\n", len(all), killed, survived, invalid)
	if survived > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutate:", err)
	os.Exit(2)
}

// mutants gives every change of a file, as the whole changed source.
func mutants(file string) ([]mutant, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var found []mutant
	add := func(n ast.Node, what string, apply, revert func()) {
		found = append(found, mutant{at: fset.Position(n.Pos()), what: what, apply: apply, revert: revert})
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			old := n.Cond
			add(n, "negate the condition", func() { n.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: old}} }, func() { n.Cond = old })
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				neutral := ast.NewIdent(map[token.Token]string{token.LAND: "true", token.LOR: "false"}[n.Op])
				x, y := n.X, n.Y
				add(x, "drop the left side of "+n.Op.String(), func() { n.X = neutral }, func() { n.X = x })
				add(y, "drop the right side of "+n.Op.String(), func() { n.Y = neutral }, func() { n.Y = y })
			}
			if swap, ok := map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}[n.Op]; ok {
				old := n.Op
				add(n, fmt.Sprintf("%s for %s", swap, old), func() { n.Op = swap }, func() { n.Op = old })
			}
		case *ast.BlockStmt:
			drop(n.List, add)
		case *ast.CaseClause:
			drop(n.Body, add)
		}
		return true
	})
	for i := range found {
		m := &found[i]
		var out bytes.Buffer
		m.apply()
		err := format.Node(&out, fset, tree)
		m.revert()
		if err != nil {
			return nil, fmt.Errorf("print %s: %w", m.at, err)
		}
		m.source = out.Bytes()
	}
	return found, nil
}

// drop offers to leave each statement out that declares nothing.
func drop(list []ast.Stmt, add func(ast.Node, string, func(), func())) {
	for i, s := range list {
		switch x := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt:
		case *ast.AssignStmt:
			if x.Tok == token.DEFINE {
				continue
			}
		default:
			continue
		}
		add(s, "leave the statement out", func() { list[i] = &ast.EmptyStmt{} }, func() { list[i] = s })
	}
}

// test runs the tests on every change, and prints those that they do not notice.
func test(dir, run, skip string, all []mutant, jobs int) (killed, survived, invalid int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan mutant)
	for range jobs {
		wg.Go(func() {
			for m := range next {
				out, err := try(dir, run, skip, m)
				mu.Lock()
				switch {
				case err == nil:
					survived++
					fmt.Printf("%s:%d: %s\n", filepath.Base(m.at.Filename), m.at.Line, m.what)
				case strings.Contains(out, "[build failed]"):
					invalid++
				default:
					killed++
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		next <- m
	}
	close(next)
	wg.Wait()
	return killed, survived, invalid
}

// try runs the tests on one change; no error means that they noticed nothing.
func try(dir, run, skip string, m mutant) (string, error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	changed, overlay := filepath.Join(tmp, "changed.go"), filepath.Join(tmp, "overlay.json")
	file, err := filepath.Abs(m.at.Filename)
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{changed: m.source, overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.Command("go", "test", "-short", "-failfast", "-count=1", "-timeout=60s", "-vet=off", "-overlay="+overlay, "-run="+run, "-skip="+skip, "./"+filepath.ToSlash(dir)).CombinedOutput()
	return string(out), err
}
