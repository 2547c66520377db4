"""Colours for charts and dense views: Okabe-Ito for categories, blue to orange for signed values, cividis for magnitude."""

OKABE_ITO = {"orange": "#E69F00", "sky": "#56B4E9", "green": "#009E73", "yellow": "#F0E442", "blue": "#0072B2",
             "vermillion": "#D55E00", "purple": "#CC79A7", "grey": "#8C8C8C"}

TENSOR = {"Q": OKABE_ITO["blue"], "K": OKABE_ITO["orange"], "V": OKABE_ITO["green"], "S": OKABE_ITO["purple"],
          "P": OKABE_ITO["sky"], "O": OKABE_ITO["vermillion"]}

AXIS = OKABE_ITO["grey"]  # readable on both themes; Altair's own text colour is not
