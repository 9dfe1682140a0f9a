package change

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/manifest"
)

// maxInput is the maximum number of bytes that are read from a file.
const maxInput = 32 << 20

// files are the values of the --filename flag.
type files []string

func (f *files) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP((*[]string)(f), "filename", "f", nil, "manifest, or folder with manifests; - is standard input; the flag can be repeated")
}

// document is one object in a file.
type document struct {
	file   string
	object manifest.Object
}

// byFlag rejects arguments, because files are specified with the --filename flag.
func byFlag(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cli.Usage(fmt.Errorf("unexpected argument %q: use -f to specify files and folders, for example: %s -f %s", args[0], cmd.CommandPath(), args[0]))
}

// read reads all documents. For a folder, it reads the .yaml, .yml and .json files in the folder and its subfolders. The
// error contains the names of all files that cannot be read.
func (f files) read(stdin io.Reader) ([]document, error) {
	if len(f) == 0 {
		return nil, cli.Usage(fmt.Errorf("--filename is required: set it to a manifest, or to - for standard input"))
	}
	var names []string
	for _, name := range f {
		found, err := expand(name)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--filename: %w", err))
		}
		names = append(names, found...)
	}
	var documents []document
	var unread []error
	for _, name := range names {
		raw, err := readFile(name, stdin)
		if err != nil {
			unread = append(unread, fmt.Errorf("--filename: %w", err))
			continue
		}
		if name == "-" {
			name = "standard input"
		}
		objects, err := manifest.Read(raw)
		if err != nil {
			unread = append(unread, fmt.Errorf("%s: %w", name, err))
			continue
		}
		for _, o := range objects {
			documents = append(documents, document{name, o})
		}
	}
	if len(unread) > 0 {
		return nil, cli.Usage(errors.Join(unread...))
	}
	return documents, nil
}

// expand returns the manifests in a folder, or the file itself.
func expand(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var found []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			found = append(found, path)
		}
		return err
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no .yaml, .yml or .json file", name)
	}
	return found, err
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(raw) > maxInput:
		return nil, fmt.Errorf("read %s: larger than %d MiB", name, maxInput>>20)
	}
	return raw, nil
}
