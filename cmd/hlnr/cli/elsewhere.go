package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// KnownNamespace returns an error that ends the command with [ExitUsage] if a namespace does not exist. It returns no error if
// the user is not allowed to read the namespace.
func KnownNamespace(ctx context.Context, c client.Reader, name string) error {
	err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if name == "" || !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), fmt.Sprintf("%q not found", name)) { // An API server without the Namespace resource returns another message.
		return nil
	}
	var list corev1.NamespaceList
	if c.List(ctx, &list) != nil {
		return Usage(fmt.Errorf("there is no namespace with the name %q", name))
	}
	names, err := namesOf(&list)
	if err != nil {
		return err
	}
	return Unknown("namespace", name, names)
}

// UnknownMicroservice returns the error for the name of a Microservice that does not exist in a namespace. An empty namespace
// means all namespaces. The what parameter describes the kind of object, such as "Microservice", and names are the existing
// names in the namespace. If the user may read other namespaces, the error lists the namespaces that have a Microservice with
// this name.
func UnknownMicroservice(ctx context.Context, c client.Reader, what, namespace, name string, names []string) error {
	if namespace == "" {
		return Unknown(what+" in any namespace", name, names)
	}
	if err := KnownNamespace(ctx, c, namespace); err != nil {
		return err
	}
	text := missing(what+" in namespace "+namespace, name)
	switch found := namespacesWith(ctx, c, name); {
	case len(found) == 1:
		return Usage(fmt.Errorf("%s; there is a Microservice %s in namespace %s: add -n %s", text, name, found[0], found[0]))
	case len(found) > 1:
		return Usage(fmt.Errorf("%s; there are Microservices named %s in the namespaces %s: choose one with -n", text, name, strings.Join(found[:min(len(found), maxNamed)], ", ")))
	case len(names) == 0:
		return Usage(fmt.Errorf("there is no %s in namespace %s: use -n for another namespace", what, namespace))
	}
	return Unknown(what+" in namespace "+namespace, name, names)
}

// namespacesWith returns the namespaces that have a Microservice with the given name, or nil if the user is not
// allowed to list Microservices in all namespaces.
func namespacesWith(ctx context.Context, c client.Reader, name string) (namespaces []string) {
	var list v1alpha1.MicroserviceList
	if err := c.List(ctx, &list, client.MatchingFields{"metadata.name": name}); err != nil {
		return nil // The error about the unknown name is sufficient without these namespaces.
	}
	for i := range list.Items {
		namespaces = append(namespaces, list.Items[i].Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}
