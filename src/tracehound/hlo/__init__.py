"""The compiled programs of an XLA profile: instructions, their graph, their HLO text, and explanations of them."""
