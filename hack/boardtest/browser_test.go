package boardtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// password is the password of all users.
const password = "verysecure"

// person is a user with a separate browser.
type person struct {
	*testing.T
	ctx context.Context
	// url is the URL of the board.
	url string
}

// browser starts a browser for the board at a URL. The browser resolves hosts with the given rules, which are the value of Chromium's
// --host-resolver-rules flag.
func browser(t *testing.T, url, rules string) *person {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox, chromedp.Flag("ignore-certificate-errors", true), chromedp.WindowSize(1360, 800))
	if rules != "" {
		options = append(options, chromedp.Flag("host-resolver-rules", rules))
	}
	allocated, cancelBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(func() { cancel(); cancelBrowser() })
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return &person{t, ctx, url}
}

// do executes a user's actions within the time limit.
func (p *person) do(what string, actions ...chromedp.Action) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var at, text string
		_ = chromedp.Run(p.ctx, chromedp.Location(&at), chromedp.Text("body", &text))
		p.Fatalf("%s: %v at %s: %s", what, err, at, text)
	}
}

// sees waits until the page contains the given text.
func (p *person) sees(text string) {
	p.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		p.Fatal(err)
	}
	p.do("see "+text, chromedp.Poll("document.body && document.body.innerText.includes("+string(quoted)+")", nil, chromedp.WithPollingInterval(100*time.Millisecond)))
}

func (p *person) text() (text string) {
	p.Helper()
	p.do("read the page", chromedp.Evaluate("document.body.innerText", &text))
	return text
}

// awaitPromise makes an evaluation wait for its promise.
func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// login logs in with the provider.
func (p *person) login(name string) {
	p.Helper()
	p.do("log in", chromedp.Navigate(p.url+"/"), chromedp.WaitVisible("#username"), chromedp.SendKeys("#username", name), chromedp.SendKeys("#password", password), chromedp.Click("button[type=submit]"), chromedp.WaitVisible("table.board, #empty"))
	p.sees(name)
}

// picture takes a screenshot of the page.
func (p *person) picture(name string) {
	p.Helper()
	var raw []byte
	p.do("take a screenshot", chromedp.Sleep(200*time.Millisecond), chromedp.CaptureScreenshot(&raw)) // Wait until the fonts are loaded.
	if *pictures == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*pictures, name), raw, 0o644); err != nil {
		p.Fatal(err)
	}
}

// accessible checks a page with axe-core if -axe is set.
func (p *person) accessible(page string) {
	p.Helper()
	if *axe == "" {
		p.Logf("%s is not checked for accessibility, because -axe is not set", page)
		return
	}
	script, err := os.ReadFile(*axe)
	if err != nil {
		p.Fatal(err)
	}
	var violations []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	p.do("check "+page, chromedp.Evaluate(string(script)+";0", nil), chromedp.Evaluate(`axe.run().then(r => r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => ({html: n.html}))})))`, &violations, chromedp.EvalAsValue, awaitPromise))
	for _, v := range violations {
		if v.Impact == "serious" || v.Impact == "critical" {
			p.Errorf("%s: %s (%s): %s, such as %s", page, v.ID, v.Impact, v.Help, v.Nodes[0].HTML)
		}
	}
}

func (p *person) count(selector string) (n int) {
	p.Helper()
	p.do("count "+selector, chromedp.Evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &n))
	return n
}
