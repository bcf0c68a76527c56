package chx

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// Codes of server exceptions that callers look for.
const (
	CodeUnknownTable    int32 = 60
	CodeUnknownDatabase int32 = 81
	CodeTooManyParts    int32 = 252
	CodeAuthentication  int32 = 516
)

// dataCodes are exceptions that say the values sent are at fault: they come again however often the
// same rows are sent. Everything else (network, memory, read-only, a missing table, a code of a later
// version) may heal, and to take it for bad data would throw good rows away.
var dataCodes = []int32{
	6,   // CANNOT_PARSE_TEXT
	26,  // CANNOT_PARSE_QUOTED_STRING
	27,  // CANNOT_PARSE_INPUT_ASSERTION_FAILED
	38,  // CANNOT_PARSE_DATE
	41,  // CANNOT_PARSE_DATETIME
	53,  // TYPE_MISMATCH
	69,  // ARGUMENT_OUT_OF_BOUND
	70,  // CANNOT_CONVERT_TYPE
	72,  // CANNOT_PARSE_NUMBER
	117, // INCORRECT_DATA
	128, // TOO_LARGE_ARRAY_SIZE
	131, // TOO_LARGE_STRING_SIZE
	321, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
	349, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
	376, // CANNOT_PARSE_UUID
	395, // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
	407, // DECIMAL_OVERFLOW
	469, // VIOLATED_CONSTRAINT
	691, // UNKNOWN_ELEMENT_OF_ENUM
}

// IsCode says whether err is a server exception with that code.
func IsCode(err error, code int32) bool {
	var exception *clickhouse.Exception
	return errors.As(err, &exception) && exception.Code == code
}

// IsRefused says that an insert failed because of the values in it, so that sending them again is of
// no use and a smaller batch may tell which row it is: the server's exceptions about data, and values
// the driver could not put into their column. Every other error of an insert means that ClickHouse
// is unavailable for now: try again later with the same rows.
func IsRefused(err error) bool {
	var exception *clickhouse.Exception
	if errors.As(err, &exception) {
		// The same code says "too many parts, wait" and "this one insert touches too many partitions".
		if exception.Code == CodeTooManyParts {
			return strings.Contains(exception.Message, "Too many partitions for single INSERT block")
		}
		return slices.Contains(dataCodes, exception.Code)
	}
	var value *proto.BlockError
	return errors.As(err, &value) && value.Op == "AppendRow"
}

// devSettings is what `turnout dev` writes into its working directory.
const devSettings = ".turnout/turnout.yaml"

// Hint adds to a refused connection what most likely mends it: where nobody said an address and a
// `turnout dev` left its settings in the working directory, those.
func (c Config) Hint(err error) error {
	if !errors.Is(err, syscall.ECONNREFUSED) || !slices.Equal(c.Addr, Default().Addr) {
		return err
	}
	if _, missing := os.Stat(devSettings); missing != nil {
		return err
	}
	return fmt.Errorf("%w: nothing said where ClickHouse is; for that of turnout dev here add --config %s", err, devSettings)
}
