"""The public boundary: arrays come in, are checked once, and leave as solver arrays.

No module after this one checks a user's array again. `cloud` has points with all that belongs to
them, `arguments` their checks, `survey` what all ranks know of them, `extent` the box and what
images of points need, `values` densities and results, and `request` the sum that is asked for.
"""

from parki.ewald.points.arguments import OPTIONS as OPTIONS
from parki.ewald.points.arguments import as_points as as_points
from parki.ewald.points.arguments import check_dtypes as check_dtypes
from parki.ewald.points.arguments import check_normals as check_normals
from parki.ewald.points.arguments import check_options as check_options
from parki.ewald.points.arguments import check_points as check_points
from parki.ewald.points.arguments import check_shape as check_shape
from parki.ewald.points.arguments import limits as limits
from parki.ewald.points.arguments import refuse_voltage as refuse_voltage
from parki.ewald.points.arguments import take_options as take_options
from parki.ewald.points.cloud import Cloud as Cloud
from parki.ewald.points.cloud import SurveyedCloud as SurveyedCloud
from parki.ewald.points.cloud import take_cloud as take_cloud
from parki.ewald.points.values import MOST_SINGLE as MOST_SINGLE
from parki.ewald.points.values import RESULTS as RESULTS
from parki.ewald.points.values import TENSOR as TENSOR
from parki.ewald.points.values import TENSOR_ROWS as TENSOR_ROWS
from parki.ewald.points.values import as_rows as as_rows
from parki.ewald.points.values import check_density as check_density
from parki.ewald.points.values import check_fields as check_fields
from parki.ewald.points.values import check_names as check_names
from parki.ewald.points.values import check_output as check_output
from parki.ewald.points.values import check_outputs as check_outputs
from parki.ewald.points.values import check_values as check_values
from parki.ewald.points.values import check_want as check_want
from parki.ewald.points.values import extremes as extremes
from parki.ewald.points.values import like_points as like_points
from parki.ewald.points.values import ratios as ratios
from parki.ewald.points.values import result_rows as result_rows
from parki.ewald.points.values import result_shape as result_shape
