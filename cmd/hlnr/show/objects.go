package show

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// query selects the objects to read.
type query struct {
	// namespace is the namespace of the objects, or empty for all namespaces.
	namespace string
	// selector selects Microservices. nil selects all Microservices.
	selector labels.Selector
	// service is the name of the only service whose releases and pods are read, or empty for all services.
	service string
	// Pods, CronJobs that follow releases, and NotificationPolicies are read only if the corresponding
	// field is true.
	pods, cronJobs, notifications bool
}

// queryOf returns the query for the flags of a command.
func queryOf(f *cli.Factory, scope *cli.Scope) (query, error) {
	namespace, err := scope.Namespace(f)
	if err != nil {
		return query{}, err
	}
	selector, err := scope.Selector()
	return query{namespace: namespace, selector: selector}, err
}

// objects reads the input for a view. Objects that the user is not allowed to read are reported once and
// omitted.
func objects(ctx context.Context, f *cli.Factory, q query) (view.Input, error) {
	in, _, err := readable(ctx, f, q)
	return in, err
}

// readable reads the input for a view, as objects does. It also returns the errors for objects that the user is not allowed to
// read, because an answer that depends on these objects cannot be determined.
func readable(ctx context.Context, f *cli.Factory, q query) (view.Input, []error, error) {
	c, err := f.Client()
	if err != nil {
		return view.Input{}, nil, err
	}
	home, err := f.Home()
	if err != nil {
		return view.Input{}, nil, err
	}
	read, missing, err := cluster.Read(ctx, c, cluster.Query{Namespace: q.namespace, Selector: q.selector, Service: q.service, Pods: q.pods, Notifications: q.notifications, CronJobs: q.cronJobs})
	if err != nil {
		return view.Input{}, nil, err
	}
	for _, err := range missing {
		fmt.Fprintln(f.ErrOut, "hlnr: not shown:", text.Clean(f.Explain(ctx, err).Error()))
	}
	if len(read.Microservices) == 0 {
		if err := cli.KnownNamespace(ctx, c, q.namespace); err != nil {
			return view.Input{}, nil, err
		}
	}
	read.Namespace, read.Program = home, f.Program()
	return read.Input, missing, nil
}

// unsure extends a not-found error if some objects could not be read, because the result is then unknown.
func unsure(err error, missing []error) error {
	if err == nil || len(missing) == 0 {
		return err
	}
	return cli.Failed(fmt.Errorf("%w, but some objects could not be read, as shown above", err))
}

// findIn returns the namespace of the service with the given name, or an error that suggests other names and namespaces.
func findIn(ctx context.Context, f *cli.Factory, in view.Input, namespace, name string) (string, error) {
	found, err := find(in, name)
	return found, explained(ctx, f, namespace, err)
}

// explained converts errors from views, as explain does. If the namespace does not contain the requested service, explained
// searches other namespaces for it.
func explained(ctx context.Context, f *cli.Factory, namespace string, err error) error {
	var unknown *view.Unknown
	if !errors.As(err, &unknown) || unknown.What != microserviceWord && unknown.What != nameWord {
		return explain(err)
	}
	c, clientErr := f.Client()
	if clientErr != nil {
		return explain(err)
	}
	return cli.UnknownMicroservice(ctx, c, unknown.What, namespace, unknown.Name, unknown.Names)
}

// These words describe unknown objects in the errors that find returns, and in the errors that
// view.WhyHost returns for a word that cannot be a host.
const (
	microserviceWord = "Microservice"
	nameWord         = "host, service or version"
)

// find returns the namespace of the service with the given name, or an error with the names of other services.
func find(in view.Input, name string) (string, error) {
	var found, names []string
	for i := range in.Microservices {
		ms := &in.Microservices[i]
		names = append(names, ms.Name)
		if ms.Name == name {
			found = append(found, ms.Namespace)
		}
	}
	switch len(found) {
	case 0:
		return "", &view.Unknown{What: microserviceWord, Name: name, Names: names}
	case 1:
		return found[0], nil
	}
	return "", explain(&view.Ambiguous{What: microserviceWord, Name: name, Objects: found, Remedy: "name one of these namespaces with -n"})
}
