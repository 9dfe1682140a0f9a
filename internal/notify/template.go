package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// maxBody is the maximum length of a body in bytes.
const maxBody = 64 << 10

// functions contains the functions that templates may call, in addition to these: eq, ne, and, or,
// not.
var functions = template.FuncMap{"json": toJSON}

// allowed contains the names of all functions that templates may call.
var allowed = []string{"json", "eq", "ne", "and", "or", "not"}

// toJSON returns a value as JSON. It returns an error if the JSON is longer than the maximum length of a body. The limit
// on the body takes effect too late for nested calls to json: each call doubles the escapes in a string, and nothing is written to
// the body before the outermost call returns.
func toJSON(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err == nil && len(raw) > maxBody {
		return "", fmt.Errorf("a value is larger than %d bytes as JSON", maxBody)
	}
	return string(raw), err
}

// CheckTemplate returns an error if a template is invalid.
func CheckTemplate(text string) error {
	_, err := parseTemplate(text)
	return err
}

// parseTemplate parses a template. The length of a template limits its execution time, because templates contain neither loops nor
// definitions, and call only the allowed functions.
func parseTemplate(text string) (*template.Template, error) {
	t, err := template.New("template").Funcs(functions).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	for _, other := range t.Templates() {
		if other.Name() != t.Name() {
			return nil, fmt.Errorf("read template: it defines %q: definitions are not allowed", other.Name())
		}
	}
	if t.Tree == nil || t.Root == nil {
		return nil, errors.New("read template: it is empty")
	}
	if err := checkNode(t.Root); err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	known, err := fieldsOf(Message{})
	if err != nil {
		return nil, err
	}
	if _, err := execute(t, known); err != nil {
		return nil, err
	}
	return t, nil
}

// checkNode rejects nodes that are not allowed in a template.
func checkNode(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, each := range n.Nodes {
			if err := checkNode(each); err != nil {
				return err
			}
		}
		return nil
	case *parse.ActionNode:
		return checkNode(n.Pipe)
	case *parse.IfNode:
		return errors.Join(checkNode(n.Pipe), checkNode(n.List), checkNode(n.ElseList))
	case *parse.PipeNode:
		if n == nil {
			return nil
		}
		if len(n.Decl) > 0 {
			return fmt.Errorf("%s: variables are not allowed", n)
		}
		for _, command := range n.Cmds {
			for _, arg := range command.Args {
				if err := checkNode(arg); err != nil {
					return err
				}
			}
		}
		return nil
	case *parse.IdentifierNode:
		if !slices.Contains(allowed, n.Ident) {
			return fmt.Errorf("function %q is not allowed: use one of %s", n.Ident, strings.Join(allowed, ", "))
		}
		return nil
	case *parse.TextNode, *parse.CommentNode, *parse.FieldNode, *parse.DotNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
		return nil
	}
	return fmt.Errorf("%s: only fields, if, and the functions %s are allowed", n, strings.Join(allowed, ", "))
}

// fieldsOf returns the fields of a message for templates, as values without methods.
func fieldsOf(m Message) (map[string]any, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write message: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	return fields, nil
}

// bounded is a body that does not grow beyond maxBody.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxBody {
		return 0, fmt.Errorf("the body is larger than %d bytes", maxBody)
	}
	return b.Builder.Write(p)
}

func execute(t *template.Template, fields map[string]any) ([]byte, error) {
	var out bounded
	if err := t.Execute(&out, fields); err != nil {
		return nil, fmt.Errorf("fill template: %w", err)
	}
	return []byte(out.String()), nil
}

// render returns the body that a template creates from a message.
func render(text string, m Message) ([]byte, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(m)
	if err != nil {
		return nil, err
	}
	return execute(t, fields)
}
