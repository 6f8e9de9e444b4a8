
  return {kept_from = kept_from, end_turn = end_turn, move_on = move_on, C = confirm, E = extend, P = replace}
end

local made
local function rest()
  made = made or make_the_rest()
  return made
end

